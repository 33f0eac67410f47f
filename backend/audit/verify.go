package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"
	"strconv"

	"helix/backend/fault"
)

// Verify reads an export and verifies all of it: every hash, the chain of each device, the Merkle root and
// signature of each segment, and that nothing is missing. keys are the trusted device keys; segments
// signed by another key are reported as unknown_key, and the chain is still verified. It needs no database
// and no network, reads r once and uses a few MiB whatever its size. Problems are in the Report; an error
// means that r could not be read or is not an export (Invalid).
func Verify(r io.Reader, keys []ed25519.PublicKey) (Report, error) {
	return verifyAgainst(r, keys, nil)
}

// verifyAgainst is Verify with a known newest signed head, so that a log whose end was removed is
// reported as truncated.
func verifyAgainst(r io.Reader, keys []ed25519.PublicKey, head *Head) (Report, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	sum := sha256.New()
	first, err := readHeader(br)
	if err != nil {
		return Report{}, err
	}
	if !bytes.HasPrefix(first, []byte(`{"t":"`)) && !bytes.Contains(first, []byte(formatName)) {
		return Report{}, fault.Invalidf("This file isn't an audit export.")
	}
	var h header
	line, whole := bytes.CutSuffix(first, []byte("\n"))
	damaged := !whole || parseStrict(line, &h) != nil || h.T != "header" || h.Format != formatName || h.Version != 1 && h.Version != formatVersion
	excuses, err := newCoverage(h.Statements)
	excuses.complete = h.Version != 1
	c := newChecker(keys, false, excuses)
	if damaged {
		c.problem(ProblemHash, 0, "a header", "a damaged first line")
		return c.finish(nil), nil
	}
	if err != nil {
		c.problem(ProblemSignature, 0, "statements that the device signed", err.Error())
	}
	sum.Write(first)
	c.ranged = h.Part
	v := &verifier{c: c, header: h, devices: map[string]bool{}}
	for _, d := range h.Devices {
		v.devices[d.ID.String()] = true
	}
	if err := v.run(br, sum); err != nil {
		return Report{}, err
	}
	c.finish(head)
	if h.Problem != "" {
		c.problem(h.Problem, 0, "a log that was intact when it was exported", "one that was not")
	}
	v.seal()
	return c.rep, nil
}

// readHeader reads the first line, whose length depends on the number of statements.
func readHeader(br *bufio.Reader) ([]byte, error) {
	var out []byte
	for len(out) < 16<<20 {
		b, err := br.ReadSlice('\n')
		out = append(out, b...)
		if err == nil || errors.Is(err, io.EOF) {
			return out, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if !bytes.HasPrefix(out, []byte(headerStart)) {
			break
		}
	}
	return out, nil
}

// seal checks the device's signature over the whole export.
func (v *verifier) seal() {
	switch t := &v.trailer; {
	case v.header.Version == 1 && v.c.stated:
		v.c.problem(ProblemSignature, 0, "an export that the device signed", "the older form, which has no signature")
	case v.header.Version == 1:
	case !t.valid():
		v.c.problem(ProblemSignature, 0, "a signature over the export", t.Signature)
	case !v.c.keys[string(t.key())]:
		v.c.problem(ProblemUnknownKey, 0, "a trusted key", t.PublicKey)
	}
}

const (
	chunkSize = 256 << 10
	maxLine   = 64 << 10
)

type verifier struct {
	c       *checker
	header  header
	trailer trailer
	devices map[string]bool
	ended   bool
	line    int64
}

// chunk is a part of the file that ends at the end of a line. Chunks are read, parsed and checked
// in three stages. Only parsing, which includes hashing, runs in parallel.
type chunk struct {
	buf     []byte
	n       int
	recs    []record
	done    chan struct{}
	trailer []byte // the last line, if it is in this chunk
	sum     [32]byte
	names   names
}

type recordKind uint8

const (
	recBad recordKind = iota
	recEntry
	recOther
	recSegment
)

type record struct {
	kind recordKind
	row  row
	v    verdict
	seg  *segment
}

func (v *verifier) run(br *bufio.Reader, sum hash.Hash) error {
	workers := min(4, max(1, runtime.GOMAXPROCS(0)))
	free := make(chan *chunk, 2*workers+2)
	for range cap(free) {
		free <- &chunk{} // memory is allocated at the first use
	}
	todo, inOrder := make(chan *chunk, cap(free)), make(chan *chunk, cap(free))
	for range workers {
		go func() {
			for ch := range todo {
				ch.parse()
				close(ch.done)
			}
		}()
	}
	readErr := make(chan error, 1)
	go func() {
		defer close(todo)
		defer close(inOrder)
		readErr <- readChunks(br, sum, free, todo, inOrder)
	}()
	for ch := range inOrder {
		<-ch.done
		v.check(ch)
		free <- ch
	}
	if err := <-readErr; err != nil {
		return err
	}
	if !v.ended {
		v.c.problem(ProblemTruncated, v.c.rep.LastSeq+1, "a last line", "the file ends before it")
	}
	return nil
}

// readChunks divides the file into chunks of whole lines and hashes all lines before the trailer. A
// line that is too long becomes a chunk that no parser accepts.
func readChunks(br *bufio.Reader, sum hash.Hash, free, todo, inOrder chan *chunk) error {
	var rest []byte
	for eof := false; !eof; {
		ch := <-free
		if ch.buf == nil {
			ch.buf = make([]byte, chunkSize)
		}
		ch.n, ch.recs, ch.trailer, ch.done = copy(ch.buf, rest), ch.recs[:0], nil, make(chan struct{})
		n, err := io.ReadFull(br, ch.buf[ch.n:])
		ch.n += n
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			eof = true
		default:
			free <- ch
			return fmt.Errorf("read export: %w", err)
		}
		end := ch.n
		if !eof {
			if end = bytes.LastIndexByte(ch.buf[:ch.n], '\n') + 1; end == 0 || ch.n-end > maxLine {
				end = ch.n
			}
		}
		rest = append(rest[:0], ch.buf[end:ch.n]...)
		ch.n = end
		body := ch.buf[:end]
		at := -1
		if bytes.HasPrefix(body, []byte(trailerStart)) {
			at = 0
		} else if i := bytes.Index(body, []byte("\n"+trailerStart)); i >= 0 {
			at = i + 1
		}
		if at >= 0 {
			sum.Write(body[:at])
			sum.Sum(ch.sum[:0])
			ch.trailer, ch.n = body[at:], at
		} else {
			sum.Write(body)
		}
		inOrder <- ch
		todo <- ch
	}
	return nil
}

// parse parses the lines and computes the expected hash of each entry.
func (ch *chunk) parse() {
	b := ch.buf[:ch.n]
	for len(b) > 0 {
		ch.recs = append(ch.recs, record{})
		rec := &ch.recs[len(ch.recs)-1]
		i := bytes.IndexByte(b, '\n')
		if i < 0 || i > maxLine {
			return // recBad
		}
		line := b[:i]
		b = b[i+1:]
		switch {
		case bytes.HasPrefix(line, []byte(entryStart)):
			details, err := parseEntry(line, &rec.row, &ch.names)
			if err != nil {
				continue
			}
			rec.kind = recEntry
			rec.v = judge(&rec.row, details)
		case bytes.HasPrefix(line, []byte(otherStart)):
			if parseOther(line, &rec.row) == nil {
				rec.kind, rec.v = recOther, verdict{}
			}
		case bytes.HasPrefix(line, []byte(segmentStart)):
			rec.seg = &segment{}
			if parseSegment(line, rec.seg) == nil {
				rec.kind = recSegment
			}
		}
	}
}

// noDetails is the details_hash of an entry without details.
var noDetails = hashDetails(nil)

// judge checks an entry by itself.
func judge(r *row, details []byte) verdict {
	v := verdict{own: true, mine: true, sum: r.sum(), details: true}
	if details == nil {
		v.erased = r.DetailsHash != noDetails
		return v
	}
	v.details = sha256.Sum256(details) == r.DetailsHash
	if r.Action == KeyChanged || r.Action == SegmentClosed {
		v.text = bytes.Clone(details)
	}
	return v
}

func (v *verifier) check(ch *chunk) {
	for i := range ch.recs {
		rec := &ch.recs[i]
		v.line++
		if v.ended {
			v.c.problem(ProblemHash, v.c.rep.LastSeq, "the last line", "lines after it")
			return
		}
		switch rec.kind {
		case recEntry, recOther:
			if v.c.cur == nil || v.c.cur.device != rec.row.Device {
				if !v.devices[rec.row.Device.String()] {
					v.c.problem(ProblemOrder, rec.row.Seq, "a device of this log", rec.row.Device.String())
				}
			}
			v.c.entry(&rec.row, &rec.v)
		case recSegment:
			v.c.segment(rec.seg)
		default:
			v.c.problem(ProblemHash, v.c.rep.LastSeq+1, "line "+strconv.FormatInt(v.line+1, 10)+" as it was written", "a damaged line")
		}
	}
	if ch.trailer != nil {
		v.end(ch)
	}
}

func (v *verifier) end(ch *chunk) {
	v.ended = true
	t := &v.trailer
	line, more, ok := bytes.Cut(ch.trailer, []byte("\n"))
	switch {
	case !ok || parseStrict(line, t) != nil || t.T != "end":
		v.c.problem(ProblemHash, v.c.rep.LastSeq, "a last line", "a damaged last line")
	case len(more) > 0:
		v.c.problem(ProblemHash, v.c.rep.LastSeq, "the last line", "lines after it")
	case t.Entries != v.c.rep.Entries || t.Segments != v.c.rep.Segments:
		v.c.problem(ProblemGap, v.c.rep.LastSeq+1, fmt.Sprint(t.Entries, " entries and ", t.Segments, " segments"), fmt.Sprint(v.c.rep.Entries, " and ", v.c.rep.Segments))
	case t.SHA256 != hex.EncodeToString(ch.sum[:]):
		v.c.problem(ProblemHash, v.c.rep.LastSeq, t.SHA256, hex.EncodeToString(ch.sum[:]))
	}
}
