"""Which capabilities the processes of a saved job have, from CRIU's images."""

from __future__ import annotations

from pathlib import Path

from torpor.process.criu_images import fields, numbers, raw_entries

_CORE = 0x55053847
_THREAD, _CREDENTIALS = 5, 10  # fields of a task, and of its thread
_INHERITABLE, _PERMITTED = 9, 10  # of credentials; what is in effect is among what is permitted

_NAMES = """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
    NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
    SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
    MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
"""In the order of the kernel's numbers (linux/capability.h)."""


def capabilities(images: Path) -> int:
    """Those that any thread has, or may have by executing a program, as the kernel's bit mask. OSError, TorporError."""
    found = 0
    for path in images.glob("core-*.img"):
        for entry in raw_entries(path, _CORE):
            thread = fields(entry).get(_THREAD)
            creds = fields(thread).get(_CREDENTIALS) if isinstance(thread, bytes) else None
            if isinstance(creds, bytes):
                found |= _mask(creds, _INHERITABLE) | _mask(creds, _PERMITTED)
    return found


def names(mask: int) -> list[str]:
    """As people know them; numbers of those that are newer than this list."""
    known = _NAMES.split()
    return [
        f"CAP_{known[bit]}" if bit < len(known) else f"capability {bit}"
        for bit in range(mask.bit_length())
        if mask >> bit & 1
    ]


def _mask(creds: bytes, wanted: int) -> int:
    words = [value for field, value in numbers(creds) if field == wanted]
    return sum(word << 32 * place for place, word in enumerate(words))
