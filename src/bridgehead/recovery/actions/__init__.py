"""Actions: what the steps of runbooks can do. One file a family; each action is registered in ``bridgehead.app.wiring``."""
