package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// SignedSegment is a signed segment without its count.
type SignedSegment struct {
	No        int64  `json:"no"`
	FirstSeq  int64  `json:"firstSeq"`
	LastSeq   int64  `json:"lastSeq"`
	FirstPrev string `json:"firstPrev"`
	LastHash  string `json:"lastHash"`
	Root      string `json:"root"`
	PublicKey string `json:"publicKey"`
	Signature string `json:"signature"`
	SignedAt  int64  `json:"signedAt"` // microseconds since 1970
}

// Head is the newest signed segment of a device, stored outside the database. It has a signature of
// its own, because otherwise anyone could turn a segment from the log into an older head.
type Head struct {
	Device uuid.UUID `json:"deviceId"`
	SignedSegment
	// Pending is the segment that was about to be committed when the file was written. The log ends
	// with it or with the previous one.
	Pending *SignedSegment `json:"pending,omitempty"`
	// Replacing means that the database was about to be replaced.
	Replacing     bool   `json:"replacing,omitempty"`
	HeadSignature string `json:"headSignature,omitempty"` // empty: written by an earlier version
}

func (s *segment) signed() SignedSegment {
	return SignedSegment{No: s.No, FirstSeq: s.First, LastSeq: s.Last, FirstPrev: hexOf(s.FirstPrev), LastHash: hexOf(s.LastHash), Root: hexOf(s.Root),
		PublicKey: hex.EncodeToString(s.Key), Signature: hex.EncodeToString(s.Signature), SignedAt: s.SignedAt}
}

// with returns h with a segment; nil stands for the state before the first.
func (h Head) with(s *segment) Head {
	if s != nil {
		h.SignedSegment = s.signed()
	}
	return h
}

// Key returns the public key that signed the head.
func (h Head) Key() ed25519.PublicKey {
	from := h.SignedSegment
	if h.Pending != nil {
		from = *h.Pending
	}
	b, _ := hex.DecodeString(from.PublicKey)
	return b
}

// segment returns the signed segment, or nil if it is malformed.
func (g SignedSegment) segment(device uuid.UUID) *segment {
	seg := &segment{Device: device, No: g.No, First: g.FirstSeq, Last: g.LastSeq, Count: g.LastSeq - g.FirstSeq + 1, SignedAt: g.SignedAt}
	for _, f := range []struct {
		dst *[32]byte
		src string
	}{{&seg.FirstPrev, g.FirstPrev}, {&seg.LastHash, g.LastHash}, {&seg.Root, g.Root}} {
		b, err := hex.DecodeString(f.src)
		if err != nil || len(b) != 32 {
			return nil
		}
		copy(f.dst[:], b)
	}
	seg.Key, _ = hex.DecodeString(g.PublicKey)
	seg.Signature, _ = hex.DecodeString(g.Signature)
	if !seg.valid() {
		return nil
	}
	return seg
}

func (h Head) message() []byte {
	b := prefix(nil, []byte("helix-audit-head-v1"))
	b = prefix(b, h.Device[:])
	for _, g := range []*SignedSegment{&h.SignedSegment, h.Pending} {
		if g == nil || g.No == 0 {
			b = prefix(b, nil)
		} else {
			b = prefix(b, []byte(g.Signature))
		}
	}
	return append(b, strconv.FormatBool(h.Replacing)...)
}

// Valid reports whether the head has valid signatures by its own key.
func (h Head) Valid() bool {
	if h.No != 0 && h.SignedSegment.segment(h.Device) == nil || h.No == 0 && h.SignedSegment != (SignedSegment{}) {
		return false
	}
	if h.Pending != nil && (h.Pending.No != h.No+1 || h.Pending.segment(h.Device) == nil) {
		return false
	}
	if h.HeadSignature == "" {
		return h.No != 0 && h.Pending == nil && !h.Replacing
	}
	sig, err := hex.DecodeString(h.HeadSignature)
	return err == nil && len(h.Key()) == ed25519.PublicKeySize && ed25519.Verify(h.Key(), h.message(), sig)
}

var errEmptyHead = errors.New("audit: the head file is empty")

// ReadHead reads a head file. The error is NotFound if it is missing and Invalid if it has
// no valid signature.
func ReadHead(path string) (Head, error) {
	var h Head
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return h, fault.NotFoundf("No audit head yet.")
	}
	if err != nil {
		return h, err
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return h, fault.Invalidf("The audit head file is empty.").WithCause(errEmptyHead)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil || d.More() || !h.Valid() {
		return Head{}, fault.Invalidf("The audit head file is damaged.").WithCause(err)
	}
	return h, nil
}

// putHead signs a head and replaces the file with it: temporary file, fsync, rename, fsync of the folder.
// after means that it is called after a commit, when a replacement of the database may have begun.
func (s *Service) putHead(h Head, after bool) (err error) {
	if s.o.HeadFile == "" {
		return nil
	}
	s.heading.Lock()
	defer s.heading.Unlock()
	if !after {
		s.replacing = h.Replacing
	}
	h.Replacing = s.replacing
	if h.No == 0 && h.Pending == nil {
		return nil // nothing has been signed
	}
	sig, err := s.db.Sign(h.message())
	if err != nil {
		return err
	}
	h.HeadSignature = hex.EncodeToString(sig)
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

// syncDir makes a rename durable if the system supports it; Windows cannot open folders.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// lastSegment returns the newest segment of a device, or nil.
func lastSegment(tx *storage.Tx, dev uuid.UUID) (*segment, error) {
	return oneSegment(tx.QueryRow(segmentColumns+` WHERE device_id = ? ORDER BY no DESC LIMIT 1`, dev))
}

// headState is the result of comparing the head file with the log.
type headState struct {
	problem string // "": none
	head    *Head  // if it could be read
	settle  bool   // it matches, but contains more than is needed now
	replace bool   // the database was being replaced when the process ended
}

// checkHead compares the head file with the newest segment of this device.
func (s *Service) checkHead(tx *storage.Tx, keys []ed25519.PublicKey, last *segment) (headState, error) {
	if s.o.HeadFile == "" {
		return headState{}, nil
	}
	h, err := ReadHead(s.o.HeadFile)
	switch {
	case fault.Is(err, fault.NotFound):
		if isNew, err := tx.LogIsNew(keys); isNew || err != nil {
			return headState{}, err
		}
		return headState{problem: ProblemHeadMissing}, nil
	case errors.Is(err, errEmptyHead):
		return headState{problem: ProblemHeadEmpty}, nil
	case err != nil:
		return headState{problem: ProblemHeadUnreadable}, nil //nolint:nilerr // the state is the answer
	}
	st := headState{head: &h}
	if h.Device != tx.Device().ID || !slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return k.Equal(h.Key()) }) {
		st.problem = ProblemHeadForeign
		return st, nil
	}
	newest := h.SignedSegment
	if h.Pending != nil {
		newest = *h.Pending
	}
	var kept SignedSegment // the segment in the log at that position
	if last != nil {
		g, err := segmentNo(tx, h.Device, newest.No)
		if err != nil {
			return st, err
		}
		if g != nil {
			kept = g.signed()
		}
	}
	earlier := h.HeadSignature == ""
	switch {
	case last == nil && h.No == 0, last != nil && last.signed() == h.SignedSegment, last != nil && last.signed() == newest:
		st.settle = h.Pending != nil || h.Replacing || earlier
		if earlier && s.statementSeq.Load() > 0 {
			st.problem = ProblemHeadOld
		}
	case h.Replacing:
		st.replace = true
	case kept == newest && kept.No > 0:
		// An earlier version wrote the file only after the commit, so it could be out of
		// date after a crash.
		if st.settle = earlier && s.statementSeq.Load() == 0; !st.settle {
			st.problem = ProblemHeadOld
		}
	default:
		st.problem = ProblemTruncated
	}
	return st, nil
}

// noteHead records that the head file does not match the log, or that the database was replaced and
// the log of the new one is now valid.
func (s *Service) noteHead(tx *storage.Tx, found headState, adopt bool) error {
	if s.o.HeadFile == "" || !adopt && !found.replace && found.problem == "" {
		return nil
	}
	e := Entry{User: s.db.LocalUser().ID, ActorKind: "system", Action: Alarm, SubjectKind: "head", SubjectID: found.problem, Outcome: Failed}
	if adopt || found.replace {
		e.Action, e.SubjectID, e.Outcome = LogReplaced, "", OK
	}
	if found.head != nil {
		e.Details = map[string]any{"head": found.head}
	}
	if e.Action == Alarm {
		s.log.Error("the audit log does not match its head file", "problem", found.problem)
	}
	_, err := appendEntry(tx, e)
	return err
}

// replacingSoon records in the head file that the database is about to be replaced, so that after a
// crash the log does not appear truncated.
func (s *Service) replacingSoon() {
	ctx := context.Background()
	keys, err := s.db.DeviceKeys(ctx)
	if err == nil {
		err = s.db.Read(ctx, func(tx *storage.Tx) error {
			last, err := lastSegment(tx, tx.Device().ID)
			if err != nil {
				return err
			}
			if found, err := s.checkHead(tx, keys, last); err != nil || found.problem != "" {
				return err
			}
			h := Head{Device: tx.Device().ID}.with(last)
			h.Replacing = true
			return s.putHead(h, false)
		})
	}
	if err != nil {
		s.log.Warn("note that the audit log will be replaced", "error", err)
	}
}
