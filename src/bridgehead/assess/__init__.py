"""Assessment: checks over an estate give findings, findings give a verdict (M2, M3, M5.0 to M5.4, M8, M10, M12). Pure."""
