"""Notify drivers: web hook, e-mail and Alertmanager; and the outbox with its couriers, which lose nothing."""

from bridgehead.drivers.notify.alertmanager import Alertmanager, AlertmanagerOptions
from bridgehead.drivers.notify.courier import Courier
from bridgehead.drivers.notify.mail import Mail, MailOptions, Security
from bridgehead.drivers.notify.outbox import Outbox
from bridgehead.drivers.notify.webhook import WebHook, WebHookOptions

__all__ = [
    "Alertmanager",
    "AlertmanagerOptions",
    "Courier",
    "Mail",
    "MailOptions",
    "Outbox",
    "Security",
    "WebHook",
    "WebHookOptions",
]
