"""Ports: Protocols whose docstrings are contracts. A driver is right when it passes the port's suite in ``bridgehead.testing``.

Common rules of every port:

- A port raises only NotFound, Conflict, Permanent, Transient or Unknown (``bridgehead.kernel.errors``).
- Calls return soon (a second or so). What takes long is asked for by one call and observed by another, or works in slices.
- Every effect takes a ``Stamp``. The same effect asked for twice is done once; an epoch older than one seen for the run is a Conflict.
- "Cannot see it" is an error (Transient), never an empty answer (design rule 7, J01).
"""
