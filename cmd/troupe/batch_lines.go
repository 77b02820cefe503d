package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// Bounds of what goes to the node at once.
const (
	blockBytes = 32 << 10
	blockLines = 1000
	// idleMax is how long a stream waits for more lines. Then it is ended, and the next line begins another one.
	idleMax = api.LineTime / 3
)

// block is a run of lines of a batch as the node takes them: one submission a line, or nothing where the batch's line is empty.
type block struct {
	data  []byte
	lines int
	err   error // what is wrong with the line after these
}

// batchReader reads a batch: one object of parameters a line.
type batchReader struct {
	name    string
	from    *bufio.Reader
	request submit.Request // of each line, without the parameters
	line    int
	found   bool // a line is not empty
}

func newBatchReader(name string, from io.Reader, r submit.Request) *batchReader {
	return &batchReader{name: name, from: bufio.NewReaderSize(from, blockBytes), request: r}
}

// block reads what has arrived, up to the bounds of a block, and waits for the first line only. Its error is io.EOF or that of the
// source; an error in a line is the block's.
func (b *batchReader) block() (k block, err error) {
	for first := true; first || b.ready() && len(k.data) < blockBytes && k.lines < blockLines; first = false {
		line, err := b.from.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			line, err = b.long(bytes.Clone(line))
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return k, err
		}
		b.line++
		if k.err = b.add(&k, bytes.TrimSpace(line)); k.err != nil {
			return k, nil
		}
	}
	return k, nil
}

// ready reports whether a line can be read without waiting.
func (b *batchReader) ready() bool {
	read, _ := b.from.Peek(b.from.Buffered())
	return bytes.IndexByte(read, '\n') >= 0
}

// long reads the rest of a line that does not fit into the buffer, as far as parameters may go.
func (b *batchReader) long(line []byte) ([]byte, error) {
	for {
		part, err := b.from.ReadSlice('\n')
		if line = append(line, part...); !errors.Is(err, bufio.ErrBufferFull) || len(line) > 2*messages.ParametersMax {
			return line, err
		}
	}
}

func (b *batchReader) add(k *block, line []byte) error {
	if len(line) > 0 {
		if err := objectOnly(fmt.Sprintf("%s:%d", b.name, b.line), line); err != nil {
			return err
		}
		r := b.request
		r.Parameters = line
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.found, k.data = true, append(k.data, data...)
	}
	k.data = append(k.data, '\n')
	k.lines++
	return nil
}

// checkBatch reads a whole file and begins it again, so that a wrong line is found before anything is submitted. What can be read only
// once, such as a pipe, is not checked.
func checkBatch(name string, f *os.File, r submit.Request) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	b := newBatchReader(name, f, r)
	for {
		k, err := b.block()
		switch {
		case k.err != nil:
			return k.err
		case errors.Is(err, io.EOF) && !b.found:
			return usagef("%s holds no line", name)
		case errors.Is(err, io.EOF):
			_, err = f.Seek(0, io.SeekStart)
			return err
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
}

// batchSource is a batch that is read while it is submitted.
type batchSource struct {
	blocks chan block
	failed error // once blocks is closed: why the source ended before its end
	next   *block
}

// openBatch begins to read a file, or standard input for "-".
func (s *submission) openBatch(ctx context.Context, r submit.Request) (*batchSource, error) {
	from, closes := s.in, func() error { return nil }
	if s.batch != "-" {
		f, err := os.Open(s.batch)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.batch, err)
		}
		if err := checkBatch(s.batch, f, r); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		from, closes = f, f.Close
	}
	source := &batchSource{blocks: make(chan block, 1)}
	go func() {
		defer func() { _ = closes() }()
		source.failed = source.read(ctx, newBatchReader(s.batch, from, r))
		close(source.blocks)
	}()
	return source, nil
}

// read reads blocks until the source ends.
func (s *batchSource) read(ctx context.Context, b *batchReader) error {
	for {
		k, err := b.block()
		if k.lines > 0 {
			select {
			case s.blocks <- k:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		switch {
		case k.err != nil:
			return k.err
		case errors.Is(err, io.EOF) && !b.found:
			return usagef("%s holds no line", b.name)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", b.name, err)
		}
	}
}

// more waits for the next block and reports whether there is one. After the last one, the error is why the source ended before
// its end.
func (s *batchSource) more(ctx context.Context) (bool, error) {
	if s.next != nil {
		return true, nil
	}
	select {
	case k, ok := <-s.blocks:
		if !ok {
			return false, s.failed
		}
		s.next = &k
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// batchPart is the part of a batch that goes into one stream. It ends with the batch, at the bounds of a stream, or when the source is
// idle.
type batchPart struct {
	source *batchSource
	until  time.Time
	left   []byte
	lines  int
	once   sync.Once
	closed chan struct{}
}

// part returns the next part, of which the first block is there.
func (s *batchSource) part() *batchPart {
	return &batchPart{source: s, until: time.Now().Add(api.StreamTime / 2), closed: make(chan struct{})}
}

// Read implements io.Reader.
func (p *batchPart) Read(to []byte) (int, error) {
	if len(p.left) == 0 && !p.block() {
		return 0, io.EOF
	}
	n := copy(to, p.left)
	p.left = p.left[n:]
	return n, nil
}

// block takes the next block, unless the part is over.
func (p *batchPart) block() bool {
	if p.source.next == nil {
		idle := time.NewTimer(idleMax)
		defer idle.Stop()
		select {
		case k, ok := <-p.source.blocks:
			if !ok {
				return false
			}
			p.source.next = &k
		case <-idle.C:
			return false
		case <-p.closed:
			return false
		}
	}
	k := p.source.next
	if p.lines > 0 && (p.lines+k.lines > api.StreamMax || time.Now().After(p.until)) {
		return false // it is the first of the next part
	}
	p.source.next, p.left, p.lines = nil, k.data, p.lines+k.lines
	return true
}

// Close implements io.Closer: nobody reads on.
func (p *batchPart) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}
