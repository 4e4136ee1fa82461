"""Watch: what observations say of objectives, sites and recovery plans. Pure: no I/O, no clock; times are handed in."""
