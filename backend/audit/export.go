package audit

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const readBatch = 5000 // entries that one read transaction loads, so that none is long

// part is what an export or a verification covers.
type part struct {
	lo, hi int64
	ranged bool
}

// partOf turns times into whole segments.
func (s *Service) partOf(ctx context.Context, from, to *time.Time) (p part, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if p.lo, p.hi, err = seqRange(tx, from, to); err != nil || from == nil && to == nil {
			return err
		}
		p.ranged = true
		var lo, hi sql.NullInt64
		if err := tx.QueryRow(`SELECT (SELECT first_seq FROM audit_segments WHERE first_seq <= ?1 AND last_seq >= ?1), (SELECT last_seq FROM audit_segments WHERE first_seq <= ?2 AND last_seq >= ?2)`, p.lo, p.hi).Scan(&lo, &hi); err != nil {
			return err
		}
		if lo.Valid {
			p.lo = lo.Int64
		}
		if hi.Valid {
			p.hi = hi.Int64
		}
		return nil
	})
	return p, err
}

// segments lists the signed segments of a part in order.
func (s *Service) segments(ctx context.Context, p part) (out []segment, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT device_id, no, first_seq, last_seq, count, first_prev, last_hash, root, public_key, signature, signed_at FROM audit_segments ORDER BY last_seq, device_id, no`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var g segment
			var fp, lh, root []byte
			var key []byte
			if err := rows.Scan(&g.Device, &g.No, &g.First, &g.Last, &g.Count, &fp, &lh, &root, &key, &g.Signature, &g.SignedAt); err != nil {
				return err
			}
			if g.Last > p.hi || p.ranged && g.Last < p.lo { // signed since, or not asked for
				continue
			}
			copy(g.FirstPrev[:], fp)
			copy(g.LastHash[:], lh)
			copy(g.Root[:], root)
			g.Key = key
			out = append(out, g)
		}
		return rows.Err()
	})
	return out, err
}

// walk calls entry for each entry of a part, and segment behind its last entry.
func (s *Service) walk(ctx context.Context, p part, segs []segment, entry func(*row, []byte) error, seg func(*segment) error) error {
	next := 0
	flush := func(before int64) error { // segments whose entries ended before this one
		for next < len(segs) && segs[next].Last < before {
			if err := seg(&segs[next]); err != nil {
				return err
			}
			next++
		}
		return nil
	}
	for lo := p.lo; lo <= p.hi; {
		last := lo - 1
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			rows, err := tx.Query(`SELECT l.seq, l.id, l.user_id, l.device_id, l.at, l.actor_kind, l.actor_id, l.action, l.subject_kind, l.subject_id, l.outcome, l.run_id, l.details_hash, l.prev_hash, l.hash, d.details
				FROM audit_log l LEFT JOIN audit_details d ON d.seq = l.seq WHERE l.seq BETWEEN ? AND ? ORDER BY l.seq LIMIT ?`, lo, p.hi, readBatch)
			if err != nil {
				return err
			}
			defer rows.Close()
			var r row
			var id, user, dev, run, dh, prev, hash, details sql.RawBytes
			for rows.Next() {
				if err := rows.Scan(&r.Seq, &id, &user, &dev, &r.At, &r.ActorKind, &r.ActorID, &r.Action, &r.SubjectKind, &r.SubjectID, &r.Outcome, &run, &dh, &prev, &hash, &details); err != nil {
					return err
				}
				copy(r.ID[:], id)
				copy(r.User[:], user)
				copy(r.Device[:], dev)
				if r.Run = uuid.Nil; run != nil {
					copy(r.Run[:], run)
				}
				copy(r.DetailsHash[:], dh)
				copy(r.Prev[:], prev)
				copy(r.Hash[:], hash)
				if err := flush(r.Seq); err != nil {
					return err
				}
				if err := entry(&r, details); err != nil {
					return err
				}
				last = r.Seq
			}
			return rows.Err()
		})
		if err != nil {
			return err
		}
		if last < lo {
			break
		}
		lo = last + 1
	}
	return flush(1<<63 - 1)
}

// Verify checks the log of this device against its own key and its newest signed head.
// Entries of other users count only as links of the chain.
func (s *Service) Verify(ctx context.Context, p VerifyParams) (Report, error) {
	user := identity.UserID(ctx)
	s.reading.RLock()
	defer s.reading.RUnlock()
	head := s.knownHead() // before the rest: a newer head would look like a missing end
	pt, err := s.partOf(ctx, p.From, p.To)
	if err != nil {
		return Report{}, err
	}
	segs, err := s.segments(ctx, pt)
	if err != nil {
		return Report{}, err
	}
	keys, err := s.trusted(ctx)
	if err != nil {
		return Report{}, err
	}
	c := newChecker(keys, pt.ranged)
	err = s.walk(ctx, pt, segs, func(r *row, details []byte) error {
		v := verdict{}
		if r.User == user {
			v = judge(r, details)
		}
		c.entry(r, &v)
		return nil
	}, func(g *segment) error { c.segment(g); return nil })
	if err != nil {
		return Report{}, err
	}
	return c.finish(head), nil
}

// trusted are the keys of this installation, present and retired.
func (s *Service) trusted(ctx context.Context) (keys []ed25519.PublicKey, err error) {
	if k := s.db.Device().PublicKey; k != nil {
		keys = append(keys, k)
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT public_key FROM device_keys`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var k []byte
			if err := rows.Scan(&k); err != nil {
				return err
			}
			keys = append(keys, k)
		}
		return rows.Err()
	})
	return keys, err
}

// Export writes the log to a new file of mode 0600 that Verify can check without Helix. What
// is not signed yet is signed first when the key is at hand. Only the caller's entries are in
// it; those of other users are links without content.
func (s *Service) Export(ctx context.Context, p ExportParams) (ExportResult, error) {
	var res ExportResult
	if !filepath.IsAbs(p.Path) {
		return res, fault.Invalidf("Give the full path of the file to write.")
	}
	if _, err := os.Lstat(p.Path); err == nil {
		return res, fault.Conflictf("There already is a file of this name. Choose another.")
	}
	if err := s.Record(ctx, Entry{Action: DataExport, SubjectKind: "audit", Details: map[string]any{"from": p.From, "to": p.To}}); err != nil {
		return res, err
	}
	if err := s.Sign(ctx); err != nil && !fault.Is(err, fault.Unavailable) {
		return res, err
	}
	s.reading.RLock()
	defer s.reading.RUnlock()
	pt, err := s.partOf(ctx, p.From, p.To)
	if err != nil {
		return res, err
	}
	f, err := os.CreateTemp(filepath.Dir(p.Path), ".audit-export-*") // mode 0600
	if err != nil {
		return res, fault.Invalidf("The file cannot be written there.").WithCause(err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if res.Entries, res.Segments, err = s.export(ctx, f, pt); err != nil {
		return ExportResult{}, fault.Unavailablef("The export could not be written. Nothing was kept of it.").WithCause(err)
	}
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return ExportResult{}, fault.Unavailablef("The export could not be written. Nothing was kept of it.").WithCause(err)
	}
	// A link refuses to replace a file that appeared meanwhile; some file systems have none.
	if err = os.Link(f.Name(), p.Path); err == nil {
		_ = os.Remove(f.Name())
	} else if err = os.Rename(f.Name(), p.Path); err != nil {
		return ExportResult{}, fault.Invalidf("The file cannot be written there.").WithCause(err)
	}
	syncDir(filepath.Dir(p.Path))
	res.Path = p.Path
	return res, nil
}

// export writes the lines of a part.
func (s *Service) export(ctx context.Context, dst io.Writer, pt part) (entries, count int64, err error) {
	user := identity.UserID(ctx)
	segs, err := s.segments(ctx, pt)
	if err != nil {
		return 0, 0, err
	}
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(dst, sum), 256<<10)
	head, err := s.header(ctx, pt, segs)
	if err != nil {
		return 0, 0, err
	}
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
	err = s.walk(ctx, pt, segs, func(r *row, details []byte) error {
		if r.User != user {
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
	line, err = json.Marshal(trailer{T: "end", Entries: entries, Segments: count, SHA256: hex.EncodeToString(sum.Sum(nil))})
	if err != nil {
		return 0, 0, err
	}
	_, err = dst.Write(append(line, '\n'))
	return entries, count, err
}

// header names the devices of a part and the keys that signed it.
func (s *Service) header(ctx context.Context, pt part, segs []segment) (header, error) {
	h := header{T: "header", Format: formatName, Version: 1, ExportedAt: time.Now().UTC().Format(time.RFC3339), Part: pt.ranged, Devices: []deviceKey{}}
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
		rows, err := tx.Query(`SELECT DISTINCT device_id FROM audit_log WHERE seq > ?`, lastOf(segs))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var dev uuid.UUID
			if err := rows.Scan(&dev); err != nil {
				return err
			}
			add(dev, nil)
		}
		return rows.Err()
	})
}

func lastOf(segs []segment) (last int64) {
	for i := range segs {
		last = max(last, segs[i].Last)
	}
	return last
}
