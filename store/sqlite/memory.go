package sqlite

import (
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Only this file accesses the library's memory, which is outside the Go heap. Values are copied out of it and into it.
// No Go pointer is stored there.

// view returns n bytes of the library's memory at p. It is invalid after they are freed.
func view(p uintptr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

// address reads the pointer at p in the library's memory.
func address(p uintptr) uintptr {
	return *(*uintptr)(*(*unsafe.Pointer)(unsafe.Pointer(&p)))
}

// number32 reads the 32-bit number at p in the library's memory.
func number32(p uintptr) int32 {
	return *(*int32)(*(*unsafe.Pointer)(unsafe.Pointer(&p)))
}

// arena holds the texts and bytes of one statement's arguments in the library's memory.
type arena struct {
	p          uintptr
	used, size int
}

// arenaKept bounds the memory that an arena keeps between statements.
const arenaKept = 256 << 10

// reset makes room for the arguments.
func (a *arena) reset(c *conn, args []any) error {
	need := 0
	for _, v := range args {
		switch v := v.(type) {
		case string:
			need += len(v) + 1
		case []byte:
			need += len(v) + 1
		}
	}
	a.used = 0
	if need <= a.size && a.size <= arenaKept {
		return nil
	}
	a.free(c)
	size := max(need, 4096)
	p, err := c.allocate(size)
	if err != nil {
		return err
	}
	a.p, a.size = p, size
	return nil
}

func (a *arena) free(c *conn) {
	if a.p != 0 {
		libc.Xfree(c.tls, a.p)
	}
	*a = arena{}
}

func (a *arena) text(s string) uintptr {
	p := a.p + uintptr(a.used)
	copy(view(p, len(s)), s)
	a.used += len(s) + 1
	return p
}

func (a *arena) bytes(b []byte) uintptr {
	p := a.p + uintptr(a.used)
	copy(view(p, len(b)), b)
	a.used += len(b) + 1
	return p
}

// row is the current row of a statement.
type row struct {
	c *conn
	stmt
}

// integer returns column i. A value that is not a number reads as the number at the start of its text, or 0.
func (r row) integer(i int) int64 {
	if i >= r.columns {
		return 0
	}
	return lib.Xsqlite3_column_int64(r.c.tls, r.p, int32(i))
}

// raw returns the bytes of column i in the library's memory. They are valid until the next step.
func (r row) raw(i int) []byte {
	if i >= r.columns {
		return nil
	}
	p := lib.Xsqlite3_column_blob(r.c.tls, r.p, int32(i))
	if p == 0 {
		return nil
	}
	return view(p, int(lib.Xsqlite3_column_bytes(r.c.tls, r.p, int32(i))))
}

// internedMax bounds the texts that a connection keeps, internedLen the length of each.
const (
	internedMax = 1024
	internedLen = 128
)

// interned returns a text with few different values (actions, pools, workers) without allocating it again.
func (r row) interned(i int) string {
	b := r.raw(i)
	if len(b) == 0 {
		return ""
	}
	if s, ok := r.c.interned[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > internedLen {
		return s
	}
	if len(r.c.interned) >= internedMax {
		clear(r.c.interned)
	}
	r.c.interned[s] = s
	return s
}
