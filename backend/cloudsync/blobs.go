package cloudsync

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"helix/backend/fault"
	"helix/backend/storage"
)

// A blob travels apart from the row that refers to it. Its upload is complete before the row is sent,
// so a device that has the row can get the blob. Devices download a blob when it is first opened.
const (
	blobLimit     = 100 << 20
	blobChunk     = 1 << 20
	blobSlowChunk = 256 << 10
	slowBytes     = 1_000_000 / 8 // per second; slower connections use small chunks
	blobTurn      = 16 << 20      // bytes uploaded between two pulls
	blobUsedEvery = 24 * time.Hour
	fetchTime     = 10 * time.Minute
)

// blobState is what this device knows about blobs on the hub. Guarded by turn.
type blobState struct {
	conn    *pgx.Conn         // for which the rest is valid
	sent    map[[32]byte]bool // complete on the hub, or never will be
	waiting map[[32]byte]bool // have to be sent before the rows that refer to them
	rate    float64           // bytes per second of the last upload; 0: unknown
	used    time.Time         // when this device last reported which blobs are in use
}

// blobKey encrypts one blob on the hub. Its nonces are the numbers of the chunks: the key depends on
// the content and the chunk size, so it never encrypts two different chunks with one nonce.
type blobKey struct {
	id   [32]byte // name of the blob on the hub
	seal cipher.AEAD
}

// blobKey returns the key of a blob for a version of the user's key. Without a user key, blobs are
// neither encrypted nor renamed.
func (r keyRing) blobKey(version int, sum [32]byte, chunk int) (k blobKey, err error) {
	user := r[version]
	if user == nil {
		return blobKey{id: sum}, nil
	}
	h := hmac.New(sha256.New, user)
	fmt.Fprintf(h, "helix sync blob|%x", sum)
	h.Sum(k.id[:0])
	key, err := hkdf.Key(sha256.New, user, nil, fmt.Sprintf("helix sync blob|%x|%d", sum, chunk), userKeySize)
	if err != nil {
		return k, err
	}
	c, err := newCipher(key, 1)
	k.seal = c.aeads[1]
	return k, err
}

func chunkNonce(n int) []byte {
	return binary.BigEndian.AppendUint32(make([]byte, 8), uint32(n)) //nolint:gosec // at most 1600 chunks
}

// encode returns chunk n as it is stored on the hub.
func (k blobKey) encode(n int, data []byte) []byte {
	if k.seal == nil {
		return data
	}
	return k.seal.Seal(nil, chunkNonce(n), data, nil)
}

// decode is the inverse of encode.
func (k blobKey) decode(n int, data []byte) ([]byte, error) {
	if k.seal == nil {
		return data, nil
	}
	return k.seal.Open(nil, chunkNonce(n), data, nil)
}

// blobColumns returns the columns that hold the SHA-256 of a blob that is on the hub.
func (t table) blobColumns() (names []string) {
	for _, c := range t.columns {
		if c.Blob {
			names = append(names, c.Name)
		}
	}
	return names
}

func parseSum(text string) (sum [32]byte, ok bool) {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "sha256:"))
	if err != nil || len(raw) != len(sum) {
		return sum, false
	}
	return [32]byte(raw), true
}

// withoutBlobs removes from a batch the rows whose blobs are not on the hub yet. sendBlobs sends those
// blobs.
func (s *Service) withoutBlobs(batch []sent) ([]sent, error) {
	if s.blobs.sent == nil || s.blobs.conn != s.conn {
		s.blobs = blobState{conn: s.conn, sent: map[[32]byte]bool{}, waiting: map[[32]byte]bool{}, rate: s.blobs.rate, used: s.blobs.used}
	}
	out := batch[:0]
	for _, x := range batch {
		missing, err := s.missingBlobs(x)
		if err != nil {
			return nil, err
		}
		for _, sum := range missing {
			s.blobs.waiting[sum] = true
		}
		if len(missing) == 0 {
			out = append(out, x)
		}
	}
	return out, nil
}

func (s *Service) missingBlobs(x sent) (missing [][32]byte, err error) {
	t, ok := s.table(x.table)
	if !ok {
		return nil, nil
	}
	names := t.blobColumns()
	if len(names) == 0 {
		return nil, nil
	}
	var row struct {
		Cols map[string]any `json:"cols"`
	}
	if err := json.Unmarshal(x.payload, &row); err != nil {
		return nil, err
	}
	for _, name := range names {
		text, _ := row.Cols[name].(string)
		if sum, ok := parseSum(text); ok && !s.blobs.sent[sum] {
			missing = append(missing, sum)
		}
	}
	return missing, nil
}

// sendBlobs sends the blobs for which rows wait, at most blobTurn bytes. It returns whether any were
// completed, so that rows can be sent now, and whether more remain.
func (s *Service) sendBlobs(ctx context.Context, h link, l local) (done, more bool, err error) {
	if len(s.blobs.waiting) == 0 {
		return false, false, nil
	}
	ring, err := s.ring(ctx, l)
	if err != nil {
		return false, false, err
	}
	left := blobTurn
	for _, sum := range slices.SortedFunc(maps.Keys(s.blobs.waiting), func(a, b [32]byte) int { return slices.Compare(a[:], b[:]) }) {
		if left <= 0 {
			return done, true, nil
		}
		whole, err := s.sendBlob(ctx, h, ring, l.keyVersion, sum, &left)
		if err != nil {
			return done, true, err
		}
		if whole {
			s.blobs.sent[sum], done = true, true
			delete(s.blobs.waiting, sum)
		}
	}
	return done, len(s.blobs.waiting) > 0, nil
}

// sendBlob sends chunks of one blob that the hub lacks, until left is used up. A blob that this
// device does not have, or that is too large, is not sent; the rows that refer to it are.
func (s *Service) sendBlob(ctx context.Context, h link, ring keyRing, version int, sum [32]byte, left *int) (whole bool, err error) {
	f, err := s.db.Blobs().OpenLocal(storage.Ref{SHA256: sum})
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Unavailable) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // read only
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	if size > blobLimit {
		s.o.Logger.Warn("a file is too large to be synced", "sha256", hex.EncodeToString(sum[:]), "bytes", size)
		return true, nil
	}
	chunk := blobChunk
	if s.blobs.rate > 0 && s.blobs.rate < slowBytes {
		chunk = blobSlowChunk
	}
	id, err := ring.blobKey(version, sum, chunk)
	if err != nil {
		return false, err
	}
	var begun *hubBlob
	if err := h.call(ctx, "blob", &begun, id.id[:]); err != nil {
		return false, err
	}
	if begun != nil {
		chunk = begun.Chunk
	}
	key, err := ring.blobKey(version, sum, chunk)
	if err != nil {
		return false, err
	}
	digests := [][]byte{}
	if err := eachChunk(f, size, chunk, func(n int, data []byte) error {
		d := sha256.Sum256(key.encode(n, data))
		digests = append(digests, d[:])
		return ctx.Err()
	}); err != nil {
		return false, err
	}
	var missing []int32
	if err := h.call(ctx, "blob_begin", &missing, key.id[:], size, chunk, digests); err != nil {
		return false, err
	}
	buffer := make([]byte, chunk)
	for _, n := range missing {
		if *left <= 0 {
			return false, nil
		}
		k, err := io.ReadFull(io.NewSectionReader(f, int64(n)*int64(chunk), int64(chunk)), buffer)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return false, err
		}
		begin := time.Now()
		if err := h.call(ctx, "blob_put", nil, key.id[:], n, key.encode(int(n), buffer[:k])); err != nil {
			return false, err
		}
		s.blobs.rate = float64(k) / max(time.Since(begin).Seconds(), 1e-6)
		*left -= max(k, 1)
	}
	return true, nil
}

// eachChunk calls fn with each chunk of f. A file without content has one chunk, which is empty.
func eachChunk(f io.ReaderAt, size int64, chunk int, fn func(n int, data []byte) error) error {
	buffer := make([]byte, min(int64(chunk), size))
	for n := 0; n == 0 || int64(n)*int64(chunk) < size; n++ {
		k, err := f.ReadAt(buffer, int64(n)*int64(chunk))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := fn(n, buffer[:k]); err != nil {
			return err
		}
	}
	return nil
}

// FetchBlob downloads a blob from the hub to this device. A download that was interrupted continues
// where it ended. It returns NotFound if there is no hub or the hub does not have the blob.
func (s *Service) FetchBlob(ctx context.Context, sum [32]byte) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	l, err := s.local(ctx)
	if err != nil {
		return err
	}
	if l.hub == nil || s.failed() {
		return errNoBlob
	}
	fetch := func(ctx context.Context, h caller, l local) error {
		ring, err := s.ring(ctx, l)
		if err != nil {
			return err
		}
		return s.fetchBlob(ctx, h, ring, sum)
	}
	if !s.polls() {
		return s.session(ctx, func(ctx context.Context, c *pgx.Conn, l local) error { return fetch(ctx, direct{s, c}, l) })
	}
	var h link
	if err := s.exclusive(ctx, func() (err error) { h, l, err = s.reach(ctx); return err }); err != nil {
		return err
	}
	if connection(h) == nil && !l.greeting.Calls {
		return errNoBlob
	}
	return fetch(ctx, inTurn{s, h}, l)
}

var errNoBlob = fault.NotFoundf("The file for this entry isn't on this device.")

func (s *Service) fetchBlob(ctx context.Context, h caller, ring keyRing, sum [32]byte) error {
	versions := slices.Sorted(maps.Keys(ring))
	slices.Reverse(versions)
	if len(versions) == 0 {
		versions = []int{0}
	}
	for _, v := range versions { // it may have been sent before the key was changed
		id, err := ring.blobKey(v, sum, 0)
		if err != nil {
			return err
		}
		var b *hubBlob
		if err := h.call(ctx, "blob", &b, id.id[:]); err != nil {
			return err
		}
		if b == nil || !b.Complete {
			continue
		}
		key, err := ring.blobKey(v, sum, b.Chunk)
		if err != nil {
			return err
		}
		return s.receive(ctx, h, key, sum, b.Chunk, b.Count)
	}
	return errNoBlob
}

// hubBlob is a blob on the hub.
type hubBlob struct {
	Chunk    int  `json:"chunk"` // size of a chunk
	Count    int  `json:"count"`
	Complete bool `json:"complete"`
}

// inTurn takes turns with the exchanges of changes.
type inTurn struct {
	s *Service
	h link
}

func (t inTurn) call(ctx context.Context, name string, out any, args ...any) error {
	return t.s.exclusive(ctx, func() error { return t.h.call(ctx, name, out, args...) })
}

// receive downloads the chunks of a blob to a file, which it then moves to the blobs.
func (s *Service) receive(ctx context.Context, h caller, key blobKey, sum [32]byte, chunk, count int) (err error) {
	select {
	case s.receiving <- struct{}{}: // one at a time, so that nobody else writes the file
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.receiving }()
	if there, err := s.db.Blobs().OpenLocal(storage.Ref{SHA256: sum}); err == nil {
		return there.Close()
	}
	if err := os.MkdirAll(s.o.Partial, 0o700); err != nil {
		return err
	}
	name := filepath.Join(s.o.Partial, fmt.Sprintf("%x-%d", sum, chunk))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // named by a hash
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	for n := int(have / int64(chunk)); n < count; n++ {
		var data []byte
		if err := h.call(ctx, "blob_get", &data, key.id[:], n); err != nil {
			return err
		}
		if data, err = key.decode(n, data); err != nil {
			return fault.Unavailablef("The file from the hub is damaged. It was not used.").WithCause(err)
		}
		if _, err := f.WriteAt(data, int64(n)*int64(chunk)); err != nil {
			return err
		}
	}
	hash := sha256.New()
	if err := rewound(f, func() error { _, err := io.Copy(hash, f); return err }); err != nil {
		return err
	}
	if [32]byte(hash.Sum(nil)) != sum {
		return errors.Join(os.Remove(name), fault.Unavailablef("The file from the hub is damaged. It was not used."))
	}
	if err := rewound(f, func() error { _, err := s.db.Blobs().Put(ctx, f); return err }); err != nil {
		return err
	}
	return os.Remove(name)
}

func rewound(f io.Seeker, fn func() error) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return fn()
}

// keepBlobs tells the hub once a day which blobs rows refer to, so that it removes the others after 30
// days. If this device keeps all blobs, it downloads those that it lacks.
func (s *Service) keepBlobs(ctx context.Context, h link, l local, r *Round) error {
	keep := s.o.KeepBlobs != nil && s.o.KeepBlobs() && (r.Pulled > 0 || s.blobs.used.IsZero())
	report := time.Since(s.blobs.used) > blobUsedEvery
	if !keep && !report {
		return nil
	}
	sums, err := s.referredBlobs(ctx)
	if err != nil {
		return err
	}
	ring, err := s.ring(ctx, l)
	if err != nil {
		return err
	}
	if report {
		ids := [][]byte{}
		for _, sum := range sums {
			for _, v := range append(slices.Collect(maps.Keys(ring)), 0) {
				k, err := ring.blobKey(v, sum, 0)
				if err != nil {
					return err
				}
				ids = append(ids, slices.Clone(k.id[:]))
			}
		}
		if err := h.call(ctx, "blob_used", nil, ids); err != nil {
			return err
		}
		s.blobs.used = time.Now()
	}
	if !keep {
		return nil
	}
	for _, sum := range sums {
		f, err := s.db.Blobs().OpenLocal(storage.Ref{SHA256: sum})
		if err == nil {
			err = f.Close()
		} else if err = s.fetchBlob(ctx, h, ring, sum); fault.Is(err, fault.NotFound) {
			err = nil // not sent yet, or lost everywhere
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// referredBlobs returns the blobs that synced rows refer to.
func (s *Service) referredBlobs(ctx context.Context) (sums [][32]byte, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		for _, t := range s.tables {
			for _, name := range t.blobColumns() {
				texts, err := storage.Collect(tx.Select(`SELECT DISTINCT `+name+` FROM `+t.Table+` WHERE `+name+` IS NOT NULL`), storage.RowTo[string])
				if err != nil {
					return err
				}
				for _, text := range texts {
					if sum, ok := parseSum(text); ok {
						sums = append(sums, sum)
					}
				}
			}
		}
		return nil
	})
	return sums, err
}
