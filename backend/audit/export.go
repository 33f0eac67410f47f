package audit

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const readBatch = 5000 // entries per read transaction, so that none takes long

// part is the range of an export or a verification.
type part struct {
	lo, hi int64
	ranged bool
}

// partOf converts times to whole segments.
func partOf(tx *storage.Tx, from, to *time.Time) (p part, err error) {
	if p.lo, p.hi, err = seqRange(tx, from, to); err != nil || from == nil && to == nil {
		return p, err
	}
	p.ranged = true
	var lo, hi sql.NullInt64
	if err := tx.QueryRow(`SELECT (SELECT first_seq FROM audit_segments WHERE first_seq <= ?1 AND last_seq >= ?1), (SELECT last_seq FROM audit_segments WHERE first_seq <= ?2 AND last_seq >= ?2)`, p.lo, p.hi).Scan(&lo, &hi); err != nil {
		return p, err
	}
	if lo.Valid {
		p.lo = lo.Int64
	}
	if hi.Valid {
		p.hi = hi.Int64
	}
	return p, nil
}

const segmentColumns = `SELECT device_id, no, first_seq, last_seq, count, first_prev, last_hash, root, public_key, signature, signed_at FROM audit_segments`

// scanSegment reads a segment. If a field does not have its original type and size, the
// signature is empty.
func scanSegment(rows storage.Row) (g segment, err error) {
	var dev, fp, lh, root []byte
	var key []byte
	var n [5]sql.NullInt64
	if err := rows.Scan(&dev, &n[0], &n[1], &n[2], &n[3], &fp, &lh, &root, &key, &g.Signature, &n[4]); err != nil {
		return g, err
	}
	good := fill(g.Device[:], dev) && fill(g.FirstPrev[:], fp) && fill(g.LastHash[:], lh) && fill(g.Root[:], root)
	for _, x := range n {
		good = good && x.Valid
	}
	if g.No, g.First, g.Last, g.Count, g.SignedAt, g.Key = n[0].Int64, n[1].Int64, n[2].Int64, n[3].Int64, n[4].Int64, key; !good {
		g.Signature = nil
	}
	return g, nil
}

// segmentNo returns one segment, or nil if it does not exist.
func segmentNo(tx *storage.Tx, dev uuid.UUID, no int64) (*segment, error) {
	return oneSegment(tx.QueryRow(segmentColumns+` WHERE device_id = ? AND no = ?`, dev, no))
}

// oneSegment reads a segment, or nil if there is no row.
func oneSegment(row storage.Row) (*segment, error) {
	g, err := scanSegment(row)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &g, err
}

// fill copies a field and reports whether it has the required size.
func fill(dst, src []byte) bool {
	clear(dst)
	return copy(dst, src) == len(dst) && len(src) == len(dst)
}

// segments returns the signed segments of a part in order.
func segments(tx *storage.Tx, p part) (out []segment, err error) {
	err = tx.Select(segmentColumns + ` ORDER BY last_seq, device_id, no`).Each(func(row storage.Row) error {
		g, err := scanSegment(row)
		if err != nil {
			return err
		}
		if !p.ranged || g.Last >= p.lo && g.Last <= p.hi {
			out = append(out, g)
		}
		return nil
	})
	return out, err
}

// snapshot is the input of a verification or an export, read at one moment.
type snapshot struct {
	part
	segs    []segment
	keys    []ed25519.PublicKey
	said    []statement
	isNew   bool
	own     []uuid.UUID // the caller's ids: entries keep the id of their time
	live    head        // the end written by this process
	extra   bool        // there are rows outside of the log
	found   headState
	adopted bool // the head file may belong to the previous log
}

// takeSnapshot takes a snapshot while no segment is being closed.
func (s *Service) takeSnapshot(ctx context.Context, from, to *time.Time) (p snapshot, err error) {
	s.closing.Lock()
	defer s.closing.Unlock()
	if p.keys, err = s.trusted(ctx); err != nil {
		return p, err
	}
	if err := s.findStatement(ctx, p.keys); err != nil {
		return p, err
	}
	s.mu.Lock()
	if s.have {
		p.live = s.cur
	}
	s.mu.Unlock()
	p.adopted = s.adopt.Load()
	return p, s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if p.part, err = partOf(tx, from, to); err != nil {
			return err
		}
		if p.own, err = tx.UserIDs(identity.UserID(ctx)); err != nil {
			return err
		}
		if p.segs, err = segments(tx, p.part); err != nil {
			return err
		}
		if p.said, err = statements(tx, p.keys); err != nil {
			return err
		}
		if p.isNew, err = tx.LogIsNew(p.keys); err != nil {
			return err
		}
		// Rows outside of the chain. Rows without a number can exist only in a table that was
		// recreated; finding them requires a full scan.
		stray := `SELECT EXISTS (SELECT 1 FROM audit_pruning)
			OR EXISTS (SELECT 1 FROM audit_details WHERE seq < (SELECT coalesce(min(seq), 1) FROM audit_log))
			OR EXISTS (SELECT 1 FROM audit_details WHERE seq > (SELECT coalesce(max(seq), 0) FROM audit_log))`
		if from == nil && to == nil {
			stray += ` OR EXISTS (SELECT 1 FROM audit_details WHERE seq IS NULL) OR EXISTS (SELECT 1 FROM audit_log WHERE seq IS NULL)`
		}
		if err := tx.QueryRow(stray).Scan(&p.extra); err != nil {
			return err
		}
		last, err := lastSegment(tx, tx.Device().ID)
		if err != nil {
			return err
		}
		p.found, err = s.checkHead(tx, p.keys, last)
		return err
	})
}

// walk calls entry for each entry of a part, and segment after its last entry.
func (s *Service) walk(ctx context.Context, p part, segs []segment, entry func(*row, []byte, bool) error, seg func(*segment) error) error {
	next := 0
	flush := func(before int64) error { // segments that ended before this entry
		for next < len(segs) && segs[next].Last < before {
			if err := seg(&segs[next]); err != nil {
				return err
			}
			next++
		}
		return nil
	}
	var seen names
	last, more := p.lo, p.lo <= p.hi
	for first := true; more; first = false {
		n := 0
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			// Read the last entry of the previous batch again, so that a duplicate of its number is
			// not missed between two batches.
			rows, err := tx.Query(`SELECT l.seq, l.id, l.user_id, l.device_id, l.at, l.actor_kind, l.actor_id, l.action, l.subject_kind, l.subject_id, l.outcome, l.run_id, l.details_hash, l.prev_hash, l.hash, d.details
				FROM audit_log l LEFT JOIN audit_details d ON d.seq = l.seq WHERE l.seq BETWEEN ? AND ? ORDER BY l.seq LIMIT ?`, last, p.hi, readBatch)
			if err != nil {
				return err
			}
			defer rows.Close()
			var r row
			var at sql.NullInt64
			var id, user, dev, run, dh, prev, hash, details sql.RawBytes
			var text [6]sql.RawBytes
			for rows.Next() {
				err := rows.Scan(&r.Seq, &id, &user, &dev, &at, &text[0], &text[1], &text[2], &text[3], &text[4], &text[5], &run, &dh, &prev, &hash, &details)
				if n++; n == 1 && !first {
					continue
				}
				good := err == nil && at.Valid && fill(r.ID[:], id) && fill(r.User[:], user) && fill(r.Device[:], dev) &&
					fill(r.DetailsHash[:], dh) && fill(r.Prev[:], prev) && fill(r.Hash[:], hash)
				r.At, r.Run = at.Int64, uuid.Nil
				if run != nil {
					good = fill(r.Run[:], run) && r.Run != uuid.Nil && good
				}
				for i, dst := range [...]*string{&r.ActorKind, &r.ActorID, &r.Action, &r.SubjectKind, &r.SubjectID, &r.Outcome} {
					good = good && text[i] != nil
					*dst = seen.of(text[i])
				}
				if err := flush(r.Seq); err != nil {
					return err
				}
				if err := entry(&r, details, good); err != nil {
					return err
				}
				last = r.Seq
			}
			return rows.Err()
		})
		if err != nil {
			return err
		}
		more = n == readBatch
	}
	return flush(1<<63 - 1)
}

// Verify verifies the log of this device, all entries of all users and devices, with its keys and
// its newest signed head. The report counts only the caller's entries.
func (s *Service) Verify(ctx context.Context, p VerifyParams) (Report, error) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	snap, err := s.takeSnapshot(ctx, p.From, p.To)
	if err != nil {
		return Report{}, err
	}
	return s.verify(ctx, snap)
}

func (s *Service) verify(ctx context.Context, snap snapshot) (Report, error) {
	excuses, err := newCoverage(snap.said)
	if err != nil {
		return Report{}, err
	}
	excuses.complete = excuses.complete || snap.isNew
	c := newChecker(snap.keys, snap.ranged, excuses)
	var cut bool
	err = s.walk(ctx, snap.part, snap.segs, func(r *row, details []byte, good bool) error {
		v := judge(r, details)
		v.bad, v.mine = !good, slices.Contains(snap.own, r.User)
		c.entry(r, &v)
		cut = cut || r.Seq == snap.live.seq && r.Hash != snap.live.hash
		return nil
	}, func(g *segment) error { c.segment(g); return nil })
	if err != nil {
		return Report{}, err
	}
	if !snap.ranged {
		s.ends(c, snap, cut)
	}
	c.finish(nil)
	if snap.extra {
		c.problem(ProblemExtra, 0, "rows that belong to the log", "others")
	}
	return c.rep, nil
}

// ends checks the end of the log against what is known from elsewhere.
func (s *Service) ends(c *checker, snap snapshot, cut bool) {
	last := max(c.seq, c.prunedSeq)
	switch {
	case c.held != nil: // reported by finish
	case cut, last < snap.live.seq:
		c.problem(ProblemTruncated, last+1, "entries up to "+strconv.FormatInt(snap.live.seq, 10)+", as they were written", "entries up to "+strconv.FormatInt(last, 10))
	case last == 0 && !snap.isNew && s.db.Device().ID != uuid.Nil && !snap.adopted:
		c.problem(ProblemTruncated, 1, "the entries of a log that was begun", "none")
	}
	switch h := snap.found.head; {
	case snap.found.problem == "" || snap.adopted || c.held != nil:
	case snap.found.problem == ProblemTruncated:
		c.problem(ProblemTruncated, last+1, fmt.Sprint("segment ", h.No, " up to entry ", h.LastSeq), fmt.Sprint("entries up to ", last))
	default:
		was := c.bad
		c.problem(snap.found.problem, 0, "a head file that matches the log", "another")
		c.rep.Alarm = !was
	}
}

// trusted returns the current and former keys of this installation.
func (s *Service) trusted(ctx context.Context) ([]ed25519.PublicKey, error) {
	return s.db.DeviceKeys(ctx)
}

// Export writes the log to a new file of mode 0600, which Verify can check without Helix. It first
// signs all unsigned entries, and then the export as a whole, so it needs the device key. The log
// is verified too, and any problem is recorded in the export. Only the caller's entries are
// included; those of other users appear as links without content.
func (s *Service) Export(ctx context.Context, p ExportParams) (ExportResult, error) {
	var res ExportResult
	if !filepath.IsAbs(p.Path) {
		return res, fault.Invalidf("Provide the full path of the file to write.")
	}
	if _, err := os.Lstat(p.Path); err == nil {
		return res, fault.Conflictf("A file with this name already exists. Choose another.")
	}
	if err := s.Record(ctx, Entry{Action: DataExport, SubjectKind: "audit", Details: map[string]any{"from": p.From, "to": p.To}}); err != nil {
		return res, err
	}
	if err := s.Sign(ctx); err != nil {
		return res, err
	}
	s.reading.RLock()
	defer s.reading.RUnlock()
	snap, err := s.takeSnapshot(ctx, nil, nil)
	if err != nil {
		return res, err
	}
	rep, err := s.verify(ctx, snap)
	if err != nil {
		return res, err
	}
	if p.From != nil || p.To != nil {
		if snap, err = s.takeSnapshot(ctx, p.From, p.To); err != nil {
			return res, err
		}
	}
	f, err := os.CreateTemp(filepath.Dir(p.Path), ".audit-export-*") // mode 0600
	if err != nil {
		return res, fault.Invalidf("Couldn't write the file there.").WithCause(err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if res.Entries, res.Segments, err = s.export(ctx, f, snap, rep.Problem); err != nil {
		return ExportResult{}, fault.Unavailablef("Couldn't write the export. No partial file was left.").WithCause(err)
	}
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return ExportResult{}, fault.Unavailablef("Couldn't write the export. No partial file was left.").WithCause(err)
	}
	// Link fails if the file exists by now. Some file systems do not support links.
	if err = os.Link(f.Name(), p.Path); err == nil {
		_ = os.Remove(f.Name())
	} else if err = os.Rename(f.Name(), p.Path); err != nil {
		return ExportResult{}, fault.Invalidf("Couldn't write the file there.").WithCause(err)
	}
	syncDir(filepath.Dir(p.Path))
	res.Path = p.Path
	return res, nil
}

// export writes the lines of a snapshot.
func (s *Service) export(ctx context.Context, dst io.Writer, snap snapshot, problem string) (entries, count int64, err error) {
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(dst, sum), 256<<10)
	head, err := s.header(ctx, snap)
	if err != nil {
		return 0, 0, err
	}
	head.Problem = problem
	line, err := json.Marshal(head)
	if err != nil {
		return 0, 0, err
	}
	write := func(b []byte) error {
		_, err := w.Write(append(b, '\n'))
		return err
	}
	if err := write(line); err != nil {
		return 0, 0, err
	}
	buf := make([]byte, 0, 16<<10)
	err = s.walk(ctx, snap.part, snap.segs, func(r *row, details []byte, _ bool) error {
		if !slices.Contains(snap.own, r.User) {
			return write(appendOtherLine(buf[:0], r))
		}
		entries++
		return write(appendEntryLine(buf[:0], r, details))
	}, func(g *segment) error {
		count++
		return write(appendSegmentLine(buf[:0], g))
	})
	if err != nil {
		return 0, 0, err
	}
	if err := w.Flush(); err != nil {
		return 0, 0, err
	}
	end := trailer{T: "end", Entries: entries, Segments: count, SHA256: hexBytes(sum.Sum(nil)), PublicKey: hexBytes(s.db.Device().PublicKey)}
	sig, err := s.db.Sign(end.message())
	if err != nil {
		return 0, 0, err
	}
	end.Signature = hexBytes(sig)
	line, err = json.Marshal(end)
	if err != nil {
		return 0, 0, err
	}
	_, err = dst.Write(append(line, '\n'))
	return entries, count, err
}

// header returns the header with the devices of a part, the keys that signed it, and the statements
// relevant to the caller's entries.
func (s *Service) header(ctx context.Context, snap snapshot) (header, error) {
	segs := snap.segs
	h := header{T: "header", Format: formatName, Version: formatVersion, ExportedAt: time.Now().UTC().Format(time.RFC3339), Part: snap.ranged, Devices: []deviceKey{},
		Statements: latest(snap.said, snap.own)}
	index := map[uuid.UUID]int{}
	add := func(dev uuid.UUID, key []byte) {
		i, ok := index[dev]
		if !ok {
			i = len(h.Devices)
			index[dev] = i
			h.Devices = append(h.Devices, deviceKey{ID: dev, PublicKeys: []string{}})
		}
		if k := hexBytes(key); key != nil && !slices.Contains(h.Devices[i].PublicKeys, k) {
			h.Devices[i].PublicKeys = append(h.Devices[i].PublicKeys, k)
		}
	}
	for i := range segs {
		add(segs[i].Device, segs[i].Key)
	}
	add(s.db.Device().ID, s.db.Device().PublicKey)
	return h, s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT DISTINCT device_id FROM audit_log WHERE seq > ?`, lastOf(segs)).Each(func(row storage.Row) error {
			var dev uuid.UUID
			if err := row.Scan(&dev); err != nil {
				return err
			}
			add(dev, nil)
			return nil
		})
	})
}

func lastOf(segs []segment) (last int64) {
	for i := range segs {
		last = max(last, segs[i].Last)
	}
	return last
}
