"""What stands on a lab: its estate and recovery files, and the work that is moved and recovered there. The lab itself: ``testing.lab``."""
