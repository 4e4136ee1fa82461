"""Assessment: checks over an estate give findings, findings give a verdict (M2, M3, M5.0 to M5.4, M8.1 to M8.3, M10.1, M12). Pure."""
