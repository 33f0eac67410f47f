package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"helix/backend/fault"
)

// Options control how a source is read. The zero value detects the format and reads everything.
type Options struct {
	Format string         // "" is Auto
	Zone   *time.Location // of times without a zone; nil is UTC
	From   Position       // where an earlier reader of the same source stopped

	Only []string // of a folder: the files to read; nil is all

	// AllowLarge permits archives that decompress to far more than their size. It must be set only
	// after a person has agreed.
	AllowLarge bool
}

// Reader returns the records of a source one by one. It is not safe for concurrent use.
type Reader struct {
	tree    *tree
	format  string
	zone    *time.Location
	entries []entry
	total   int64    // bytes of all entries
	before  int64    // bytes of the entries already read
	from    Position // where to continue; zero once it is passed
	ids     ids

	nextEntry int // of entries
	file      io.ReadCloser
	read      *counted
	parse     parser
}

// parser returns the records of one file.
type parser interface {
	next() (Record, error)
}

// counted counts the bytes that a parser has read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// Open opens src for reading. If src cannot be read at all the error is NotFound, Denied or Limit,
// or Invalid if no known format is recognized.
func Open(src Source, o Options) (*Reader, error) {
	if o.Format == "" {
		o.Format = Auto
	}
	if o.Format != Auto && !slices.Contains(Formats, o.Format) {
		return nil, fault.Invalidf("The format must be auto, %s.", strings.Join(Formats, ", "))
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	t, err := openTree(src, o.AllowLarge)
	if err != nil {
		return nil, err
	}
	r := &Reader{tree: t, zone: o.Zone, from: o.From}
	if r.format, r.entries, err = choose(t, o.Format); err == nil && r.format == "" {
		err = unknown(t, o.Format)
	}
	if err != nil {
		_ = t.close()
		if f := (*fault.Error)(nil); errors.As(err, &f) {
			return nil, f
		}
		return nil, openError(err)
	}
	if o.Only != nil {
		only := map[string]bool{}
		for _, name := range o.Only {
			only[name] = true
		}
		r.entries = slices.DeleteFunc(slices.Clone(r.entries), func(e entry) bool { return !only[e.name] })
	}
	for _, e := range r.entries {
		r.total += e.size
	}
	for r.texts() && r.nextEntry < len(r.entries) && !t.one && done(r.entries[r.nextEntry], o.From) {
		r.before += r.entries[r.nextEntry].size
		r.nextEntry++
	}
	return r, nil
}

// afterAllRecords is an offset greater than that of any record.
const afterAllRecords = 1 << 62

// done reports whether an earlier reader that stopped at from had finished e.
func done(e entry, from Position) bool {
	return e.name < from.File || e.name == from.File && from.Offset == afterAllRecords
}

func unknown(t *tree, format string) error {
	switch {
	case t.one:
		return fault.Invalidf("Couldn't detect the format of this file. Choose one.")
	case format == Auto:
		return fault.Invalidf("There's nothing here that Helix can import.")
	}
	return fault.Invalidf("Couldn't find a %s file here.", format)
}

// Format returns the format, detected or as requested.
func (r *Reader) Format() string { return r.format }

// Folder reports whether the source is a folder. Files then lists the files to read.
func (r *Reader) Folder() bool { return !r.tree.one && !r.tree.archive }

// Archive reports whether the source is a zip archive.
func (r *Reader) Archive() bool { return r.tree.archive }

// Files lists the files to read, by their paths in the folder or archive.
func (r *Reader) Files() []string {
	names := make([]string, len(r.entries))
	for i, e := range r.entries {
		names[i] = e.name
	}
	return names
}

// Problems returns the files that were excluded before anything was read.
func (r *Reader) Problems() []Problem { return r.tree.problems }

// Fingerprint identifies the content of the file: a Position is valid only with the same
// fingerprint. It is empty for a folder and for data without a path.
func (r *Reader) Fingerprint() string { return r.tree.fingerprint }

// Progress returns the fraction of the source that has been read, 0 to 1.
func (r *Reader) Progress() float64 {
	if r.total == 0 {
		return 0
	}
	done := r.before
	if r.read != nil {
		done += r.read.n
	}
	return min(1, float64(done)/float64(r.total))
}

// texts reports whether records are identified by their file. Other records have ids, and to make
// these unique the reader must reread the records before the start position.
func (r *Reader) texts() bool { return r.format == Markdown || r.format == Text }

// Next returns the next record, or io.EOF after the last. A *BrokenError means that the rest of the
// source is unreadable.
func (r *Reader) Next(ctx context.Context) (Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Record{}, err
		}
		rec, err := r.record()
		if err != nil || r.texts() {
			return rec, err
		}
		name := rec.After.File
		r.ids.makeUnique(&rec, name)
		if from := r.from; from != (Position{}) && (name < from.File || name == from.File && rec.After.Offset <= from.Offset) {
			continue
		}
		r.from = Position{}
		return rec, nil
	}
}

func (r *Reader) record() (Record, error) {
	for {
		if r.parse == nil {
			if r.nextEntry == len(r.entries) {
				return Record{}, io.EOF
			}
			if err := r.begin(); err != nil {
				return r.unreadable(err)
			}
		}
		e := r.entries[r.nextEntry]
		rec, err := r.parse.next()
		switch {
		case errors.Is(err, io.EOF):
			r.end()
			continue
		case err != nil:
			return Record{}, r.failed(e, err)
		}
		if !r.tree.one {
			rec.After.File = e.name
			if rec.Problem != nil {
				rec.Problem.File = e.name
			}
		}
		return rec, nil
	}
}

// unreadable reports a file of a folder that cannot be opened, and skips it.
func (r *Reader) unreadable(err error) (Record, error) {
	e := r.entries[r.nextEntry]
	r.end()
	if r.tree.one {
		return Record{}, openError(err)
	}
	after := Position{File: e.name, Offset: afterAllRecords}
	return Record{Problem: &Problem{File: e.name, Message: "This file cannot be read."}, After: after}, nil
}

// failed returns the reason why the parser stopped: a limit, or a position from which on the file
// is unreadable.
func (r *Reader) failed(e entry, err error) error {
	var broken *BrokenError
	var coded *fault.Error
	switch {
	case errors.As(err, &broken), errors.As(err, &coded):
		return err
	}
	if r.read != nil && (r.tree.archive || errors.Is(err, io.ErrUnexpectedEOF)) {
		return errors.Join(&BrokenError{File: path.Base(e.name), Offset: r.read.n}, err)
	}
	return openError(err)
}

// begin opens the next entry.
func (r *Reader) begin() error {
	e := r.entries[r.nextEntry]
	f, err := e.open()
	if err != nil {
		return err
	}
	r.file, r.read = f, &counted{Reader: f}
	name := path.Base(e.name)
	switch r.format {
	case JSONL:
		r.parse = &jsonlReader{lines: newLines(r.read), zone: r.zone}
	case Markdown, Text:
		part := 0 // parts before it belong to the same text and are read again
		if r.tree.one || e.name == r.from.File {
			part = r.from.Part
		}
		r.from = Position{}
		r.parse = newDocuments(r.read, r.format, e.name, part, r.zone)
	default:
		r.parse = &conversations{elements: newElements(r.read, name), format: r.format, name: e.name, zone: r.zone}
	}
	return nil
}

func (r *Reader) end() {
	if r.file != nil {
		_ = r.file.Close()
	}
	r.before += r.entries[r.nextEntry].size
	r.file, r.read, r.parse = nil, nil, nil
	r.nextEntry++
}

// Close releases the resources of the reader.
func (r *Reader) Close() error {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
	return r.tree.close()
}

// conversations reads the elements of an export.
type conversations struct {
	elements *elements
	format   string
	name     string // of the file
	zone     *time.Location
}

func (c *conversations) next() (Record, error) {
	raw, at, err := c.elements.next()
	after := c.elements.after()
	problem := func(format string, args ...any) (Record, error) {
		return Record{Problem: &Problem{Message: fmt.Sprintf(format, args...)}, After: after}, nil
	}
	switch {
	case errors.Is(err, errLong):
		return problem("The conversation at byte %d is longer than 8 MiB and was skipped.", at)
	case err != nil:
		return Record{}, err
	}
	var conv *Conversation
	switch c.format {
	case ChatGPT:
		conv, err = parseChatGPT(raw, c.zone)
	case Claude:
		conv, err = parseClaude(raw, c.zone)
	default:
		conv, err = parseLoCoMo(raw, c.name, c.zone)
	}
	if err != nil {
		return problem("The conversation at byte %d is malformed and was skipped.", at)
	}
	return Record{Conversation: conv, After: after}, nil
}
