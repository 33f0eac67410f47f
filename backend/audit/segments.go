package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// AppendKeyChange writes the entry that carries trust from the old key of this device to a
// new one: both sign it. Signing goes on with the new key after it.
func AppendKeyChange(tx *storage.Tx, old, next ed25519.PublicKey, signOld, signNew func([]byte) ([]byte, error)) error {
	k := keyChange{Old: old, New: next}
	dev := tx.Device().ID
	var err error
	if k.OldSignature, err = signOld(k.message(dev)); err != nil {
		return err
	}
	if k.NewSignature, err = signNew(k.message(dev)); err != nil {
		return err
	}
	return Append(tx, Entry{ActorKind: "system", Action: KeyChanged, SubjectKind: "device", SubjectID: dev.String(), Details: k})
}

// Run signs segments, closes what a crash cut off and removes what is too old, until ctx
// ends; then it signs what is left.
func (s *Service) Run(ctx context.Context) error {
	s.closeInterrupted(ctx)
	s.compareHead(ctx)
	sweep := time.NewTicker(time.Hour)
	defer sweep.Stop()
	prune := func() {
		if err := s.Prune(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("audit retention", "error", err)
		}
	}
	prune()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if err := s.Sign(stop); err != nil {
				s.log.Error("sign the last audit segment", "error", err)
			}
			return nil
		case <-sweep.C:
			prune()
			continue
		case <-s.wake:
		case <-timer.C:
		}
		if s.again.Swap(false) {
			s.closeInterrupted(ctx)
		}
		wait, err := s.closeDue(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("sign audit segment", "error", err)
			wait = s.o.SegmentAge
		}
		timer.Reset(wait)
	}
}

func (s *Service) closeInterrupted(ctx context.Context) {
	if n, err := s.CloseInterrupted(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("close interrupted runs", "error", err)
	} else if n > 0 {
		s.log.Info("closed runs that a stop interrupted", "count", n)
	}
}

// openSegment is what stands behind the last signed segment of this device.
type openSegment struct {
	no      int64 // number that it will get
	from    int64 // first entry
	last    int64
	firstAt int64 // when the first entry was written
	prev    [32]byte
}

func loadOpen(tx *storage.Tx, dev uuid.UUID) (o openSegment, err error) {
	var lastHash []byte
	err = tx.QueryRow(`SELECT no, last_seq, last_hash FROM audit_segments WHERE device_id = ? ORDER BY no DESC LIMIT 1`, dev).Scan(&o.no, &o.from, &lastHash)
	if errors.Is(err, sql.ErrNoRows) {
		err, o.prev = nil, genesis(dev)
	} else {
		copy(o.prev[:], lastHash)
	}
	o.no++
	if err != nil {
		return o, err
	}
	err = tx.QueryRow(`SELECT seq, at FROM audit_log WHERE seq > ? AND device_id = ? ORDER BY seq LIMIT 1`, o.from, dev).Scan(&o.from, &o.firstAt)
	if errors.Is(err, sql.ErrNoRows) {
		o.from = 0
		return o, nil
	}
	if err != nil {
		return o, err
	}
	return o, tx.QueryRow(`SELECT max(seq) FROM audit_log`).Scan(&o.last)
}

// closeDue closes the segments that are full or old enough, and says when to look again.
func (s *Service) closeDue(ctx context.Context) (time.Duration, error) {
	for {
		var o openSegment
		if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { o, err = loadOpen(tx, s.db.Device().ID); return err }); err != nil {
			return 0, err
		}
		if o.from == 0 {
			return time.Hour, nil
		}
		if n := o.last - o.from + 1; n < int64(s.o.SegmentEntries)-1 { // one place is for the mark
			if age := time.Since(time.UnixMicro(o.firstAt)); age < s.o.SegmentAge {
				return s.o.SegmentAge - max(age, 0), nil
			}
		}
		if err := s.closeOne(ctx); err != nil {
			return 0, err
		}
	}
}

// Sign signs everything that is not signed yet. It is Unavailable while the device key is
// locked.
func (s *Service) Sign(ctx context.Context) error {
	for {
		var o openSegment
		if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { o, err = loadOpen(tx, s.db.Device().ID); return err }); err != nil || o.from == 0 {
			return err
		}
		if err := s.closeOne(ctx); err != nil {
			return err
		}
	}
}

// closeOne signs one segment: at most SegmentEntries entries, the last of which says so when
// the segment reaches the end of the log.
func (s *Service) closeOne(ctx context.Context) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	var head Head
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		dev := tx.Device()
		o, err := loadOpen(tx, dev.ID)
		if err != nil || o.from == 0 {
			return err
		}
		last := min(o.last, o.from+int64(s.o.SegmentEntries)-1)
		if last == o.last && last-o.from+1 < int64(s.o.SegmentEntries) {
			if last, err = appendEntry(tx, Entry{User: s.db.LocalUser().ID, ActorKind: "system", Action: SegmentClosed, SubjectKind: "segment", SubjectID: strconv.FormatInt(o.no, 10)}); err != nil {
				return err
			}
		}
		seg := segment{Device: dev.ID, No: o.no, First: o.from, Last: last, Count: last - o.from + 1, FirstPrev: o.prev, Key: dev.PublicKey, SignedAt: tx.Now.UnixMicro()}
		if err := seg.fill(tx); err != nil {
			return err
		}
		if seg.Signature, err = s.db.Sign(seg.message()); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO audit_segments (device_id, no, first_seq, last_seq, count, first_prev, last_hash, root, public_key, signature, signed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			seg.Device, seg.No, seg.First, seg.Last, seg.Count, seg.FirstPrev, seg.LastHash, seg.Root, []byte(seg.Key), seg.Signature, seg.SignedAt); err != nil {
			return err
		}
		head = seg.head()
		return nil
	})
	if err != nil || head.No == 0 {
		return err
	}
	return s.writeHead(head)
}

// fill computes the root over the entries, which must follow one another.
func (s *segment) fill(tx *storage.Tx) error {
	rows, err := tx.Query(`SELECT seq, hash FROM audit_log WHERE seq BETWEEN ? AND ? ORDER BY seq`, s.First, s.Last)
	if err != nil {
		return err
	}
	defer rows.Close()
	var m merkle
	for rows.Next() {
		var seq int64
		var h sql.RawBytes
		if err := rows.Scan(&seq, &h); err != nil {
			return err
		}
		if seq != s.First+int64(m.n) {
			return fault.Internalf(fmt.Errorf("audit: entry %d is missing", s.First+int64(m.n)), "The audit log is damaged, so its newest part was not signed.")
		}
		copy(s.LastHash[:], h)
		m.add(s.LastHash)
	}
	if int64(m.n) != s.Count && rows.Err() == nil {
		return fault.Internalf(errors.New("audit: entries are missing"), "The audit log is damaged, so its newest part was not signed.")
	}
	s.Root = m.root()
	return rows.Err()
}

// Head is the newest signed segment of a device, as it is kept outside the database.
type Head struct {
	Device    uuid.UUID `json:"deviceId"`
	No        int64     `json:"no"`
	FirstSeq  int64     `json:"firstSeq"`
	LastSeq   int64     `json:"lastSeq"`
	FirstPrev string    `json:"firstPrev"`
	LastHash  string    `json:"lastHash"`
	Root      string    `json:"root"`
	PublicKey string    `json:"publicKey"`
	Signature string    `json:"signature"`
	SignedAt  int64     `json:"signedAt"` // microseconds since 1970
}

func (s *segment) head() Head {
	return Head{Device: s.Device, No: s.No, FirstSeq: s.First, LastSeq: s.Last, FirstPrev: hexOf(s.FirstPrev), LastHash: hexOf(s.LastHash), Root: hexOf(s.Root),
		PublicKey: hex.EncodeToString(s.Key), Signature: hex.EncodeToString(s.Signature), SignedAt: s.SignedAt}
}

// Key is the public key that signed the head.
func (h Head) Key() ed25519.PublicKey {
	b, _ := hex.DecodeString(h.PublicKey)
	return b
}

// Valid reports whether the head carries a good signature by its own key.
func (h Head) Valid() bool {
	seg := segment{Device: h.Device, No: h.No, First: h.FirstSeq, Last: h.LastSeq, Key: h.Key(), SignedAt: h.SignedAt}
	for _, f := range []struct {
		dst *[32]byte
		src string
	}{{&seg.FirstPrev, h.FirstPrev}, {&seg.LastHash, h.LastHash}, {&seg.Root, h.Root}} {
		b, err := hex.DecodeString(f.src)
		if err != nil || len(b) != 32 {
			return false
		}
		copy(f.dst[:], b)
	}
	seg.Signature, _ = hex.DecodeString(h.Signature)
	return seg.valid()
}

// ReadHead reads a head file. A missing one is NotFound, one without a good signature
// Invalid.
func ReadHead(path string) (Head, error) {
	var h Head
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return h, fault.NotFoundf("There is no audit head yet.")
	}
	if err != nil {
		return h, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil || !h.Valid() {
		return h, fault.Invalidf("The audit head file is damaged.").WithCause(err)
	}
	return h, nil
}

// writeHead replaces the head file: temp file, fsync, rename, fsync of the folder.
func (s *Service) writeHead(h Head) error {
	if s.o.HeadFile == "" {
		return nil
	}
	b, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.o.HeadFile), 0o700); err != nil {
		return err
	}
	return writeFile(s.o.HeadFile, append(b, '\n'))
}

func writeFile(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".audit-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	syncDir(filepath.Dir(path))
	return nil
}

// syncDir makes a rename durable where the system can; Windows cannot open folders.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// knownHead is the head file's content when it is this device's, else nil.
func (s *Service) knownHead() *Head {
	if s.o.HeadFile == "" {
		return nil
	}
	h, err := ReadHead(s.o.HeadFile)
	if err != nil || h.Device != s.db.Device().ID {
		return nil
	}
	return &h
}

// compareHead puts on record that the log ends before its newest signed head, before new
// segments replace that head.
func (s *Service) compareHead(ctx context.Context) {
	h := s.knownHead()
	if h == nil {
		return
	}
	var no int64
	var hash []byte
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce(max(no), 0), (SELECT last_hash FROM audit_segments WHERE device_id = ?1 AND no = ?2) FROM audit_segments WHERE device_id = ?1`, h.Device[:], h.No).Scan(&no, &hash)
	})
	if err != nil || no >= h.No && hex.EncodeToString(hash) == h.LastHash {
		return
	}
	s.log.Error("audit log ends before its signed head", "segments", no, "head", h.No)
	if err := s.Record(ctx, Entry{User: s.db.LocalUser().ID, ActorKind: "system", Action: SegmentClosed, SubjectKind: "segment", SubjectID: strconv.FormatInt(h.No, 10), Outcome: Failed,
		Details: map[string]any{"problem": ProblemTruncated, "head": h}}); err != nil {
		s.log.Error("record the missing end of the audit log", "error", err)
	}
}
