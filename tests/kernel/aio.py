"""Asynchronous I/O for the victims, by the bare system calls: nothing to install, no threads."""

import ctypes
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_SETUP, _GETEVENTS, _SUBMIT = 206, 208, 209  # x86-64
READ, WRITE = 0, 1


class Ring:
    """io_submit of equal blocks of one buffer; the submission and the wait are calls of their own,
    so that a victim can time the first alone."""

    def __init__(self, file, buffer, depth=64):
        self.file, self.length, self.flying = file, len(buffer), 0
        self.memory = ctypes.c_char.from_buffer(buffer)  # keeps the buffer as well
        self.address = ctypes.addressof(self.memory)
        self.context = ctypes.c_ulong(0)
        self.check(_libc.syscall(_SETUP, depth, ctypes.byref(self.context)))
        self.events = ctypes.create_string_buffer(32 * depth)

    @staticmethod
    def check(result):
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def prepare(self, operation, offsets):
        blocks = [ctypes.create_string_buffer(struct.pack(
            "<QIiHhIQQqQII", index, 0, 0, operation, 0, self.file, self.address, self.length,
            offset, 0, 0, 0)) for index, offset in enumerate(offsets)]
        pointers = (ctypes.c_void_p * len(blocks))(*(ctypes.addressof(one) for one in blocks))
        return blocks, pointers

    def submit(self, prepared):
        """One io_submit of all that was prepared."""
        blocks, pointers = prepared
        done = self.check(_libc.syscall(_SUBMIT, self.context, ctypes.c_long(len(blocks)),
                                        pointers))
        if done != len(blocks):
            raise OSError(f"{done} of {len(blocks)} blocks submitted")
        self.flying += done

    def reap(self):
        """Waits for all that are under way."""
        while self.flying:
            got = self.check(_libc.syscall(_GETEVENTS, self.context, ctypes.c_long(self.flying),
                                           ctypes.c_long(self.flying), self.events, None))
            for index in range(got):
                result, = struct.unpack_from("<q", self.events, 32 * index + 16)
                if result < 0:
                    raise OSError(-result, os.strerror(-result))
            self.flying -= got
