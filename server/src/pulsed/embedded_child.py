"""The last step before Postgres: give up root, ask to end with the parent, become the program.

Run as a script, never imported by the server:

    python -I -S embedded_child.py UID GID PARENT PROGRAM [ARGUMENT...]

A process of its own and not a ``preexec_fn``: that would run Python between fork and exec of a
process that has threads, where any lock may be held for ever; and uvloop has no ``user=``.
It uses the standard library only, and starts in about 20 ms.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def give_up_root(uid: int, gid: int) -> None:
    """Become uid and gid, without any other group. Someone who is not root stays who they are."""
    if os.geteuid() == 0:
        os.setgroups([gid])
        os.setgid(gid)
        os.setuid(uid)


def end_with_parent(parent: int) -> None:
    """Have the kernel send SIGINT (Postgres: fast shutdown) when the parent is killed.

    Linux only. Elsewhere a Postgres that was left behind is stopped at the next start. A change
    of user clears the wish, so this comes after it; a parent that died before it is noticed
    by the changed parent's pid.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("pulsed ended while Postgres was starting")


if __name__ == "__main__":
    uid, gid, parent, *command = sys.argv[1:]
    give_up_root(int(uid), int(gid))
    end_with_parent(int(parent))
    os.execv(command[0], command)  # noqa: S606 - that is what this is for
