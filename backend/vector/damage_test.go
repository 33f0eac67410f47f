package vector

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"helix/backend/fault"
)

const tinyDims = 6

// written returns a file with n vectors, some of them replaced or removed, of which the first
// flushed were made durable by a Flush, and its expected content.
func written(t testing.TB, seed uint64, n, flushed int) ([]byte, model) {
	t.Helper()
	dir := t.TempDir()
	ix, err := Open(dir, tinyDims, testModel)
	must(t, err)
	s := newSource(seed, tinyDims)
	m := model{}
	for i := range n {
		id := uint32(i)
		if i%7 == 3 {
			id-- // replaces the previous one
		}
		v := Vector{ID: id, Tag: s.r.Uint64(), Values: s.vector()}
		must(t, ix.Add(v.ID, v.Tag, v.Values))
		m[id] = v
		if i%11 == 5 {
			must(t, ix.Remove(uint32(i/2)))
			delete(m, uint32(i/2))
		}
		if i+1 == flushed {
			must(t, ix.Flush())
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	abandon(ix)
	return b, m
}

// reopened opens a folder with a file of these bytes.
func reopened(t testing.TB, b []byte, dims int, modelID string) *Index {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, fileName), b, 0o600))
	ix, err := Open(dir, dims, modelID)
	must(t, err)
	t.Cleanup(func() { ix.Close() })
	return ix
}

// usableAfter fails if ix contains anything that is not in m, or cannot be used.
func usableAfter(t testing.TB, what string, ix *Index, m model) {
	t.Helper()
	st := ix.Stats()
	if st.Rebuilt != "" && ix.Len() != 0 {
		t.Fatalf("%s: %q, but %d vectors are there", what, st.Rebuilt, ix.Len())
	}
	for id := range ix.IDs().All() {
		tag, _ := ix.Tag(id)
		v, _ := ix.Vector(id, nil)
		if want, ok := m[id]; !ok || tag != want.Tag || cosine(v, want.Values) < 1-1e-9 {
			t.Fatalf("%s: vector %d was not there before", what, id)
		}
	}
	v := newSource(9, ix.dims).vector()
	must(t, ix.Add(5000, 5, v))
	if hits := ix.Search(v, 1, SearchOptions{}); len(hits) != 1 || hits[0].ID != 5000 {
		t.Fatalf("%s: a new vector is not found: %v", what, hits)
	}
}

func TestFilesOfOtherIndexesAreReplaced(t *testing.T) {
	t.Parallel()
	good, m := written(t, 1, 60, 60)
	if ix := reopened(t, good, tinyDims, testModel); ix.Stats().Rebuilt != "" {
		t.Fatal(ix.Stats().Rebuilt)
	} else {
		m.same(t, ix)
	}
	for _, c := range []struct {
		name, why string
		bytes     []byte
		dims      int
		model     string
	}{
		{"other model", "another model", good, tinyDims, "model@2"},
		{"longer model", "another model", good, tinyDims, testModel + "x"},
		{"other length", "another length", good, tinyDims + 1, testModel},
		{"empty", "breaks off", nil, tinyDims, testModel},
		{"text", "not a vector file", bytes.Repeat([]byte("hello "), 5000), tinyDims, testModel},
		{"zeros", "not a vector file", make([]byte, 20_000), tinyDims, testModel},
		{"header only", "breaks off", good[:headerBytes], tinyDims, testModel},
	} {
		ix := reopened(t, c.bytes, c.dims, c.model)
		if why := ix.Stats().Rebuilt; !strings.Contains(why, c.why) {
			t.Errorf("%s: rebuilt because %q, want %q", c.name, why, c.why)
		}
		usableAfter(t, c.name, ix, nil)
	}
}

// A file that is shorter than at its last Flush is rejected. After that Flush, incomplete records
// are dropped and the others kept.
func TestTruncatedFile(t *testing.T) {
	t.Parallel()
	const n, flushed = 64, 40
	good, m := written(t, 2, n, flushed)
	size := recordBytes + tinyDims*4
	_, data := layout(tinyDims)
	slots := (len(good) - int(data)) / size
	for cut := 1; cut < len(good); cut += 1 + cut/97 {
		left := len(good) - cut
		ix := reopened(t, good[:left], tinyDims, testModel)
		st := ix.Stats()
		// Slots are reused, so there are fewer than n at the Flush.
		if whole := (left - int(data)) / size; left < int(data) {
			if st.Rebuilt == "" {
				t.Fatalf("%d bytes less: not rebuilt", cut)
			}
		} else if st.Rebuilt == "" && (st.Slots != whole || (left-int(data))%size != 0 && st.Dropped != 1) {
			t.Fatalf("%d bytes less: %+v, %d of %d slots are whole", cut, st, whole, slots)
		} else if st.Rebuilt != "" && whole >= flushed {
			t.Fatalf("%d bytes less: rebuilt because %q, but all that was flushed is there", cut, st.Rebuilt)
		}
		defer abandon(ix)
		for id := range ix.IDs().All() { // an older version of a vector may reappear
			if tag, _ := ix.Tag(id); m[id].Tag == tag {
				v, _ := ix.Vector(id, nil)
				if cosine(v, m[id].Values) < 1-1e-9 {
					t.Fatalf("%d bytes less: vector %d is another", cut, id)
				}
			}
		}
	}
}

// After any single-bit error, the file is either rejected, or unchanged in content, or lacks the
// one vector that was not flushed.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	for _, flushed := range []int{40, 0} {
		good, m := written(t, 3, 40, flushed)
		r := newSource(4, 1).r
		rebuilt, dropped := 0, 0
		flips := 300
		if os.Getenv("HELIX_LONG") == "1" {
			flips = len(good) * 8
		}
		for i := range flips {
			at := i
			if flips != len(good)*8 {
				at = r.IntN(len(good) * 8)
				if _, data := layout(tinyDims); i%2 == 0 { // half of the errors are in records
					at = int(data)*8 + r.IntN((len(good)-int(data))*8)
				}
			}
			bad := slices.Clone(good)
			bad[at/8] ^= 1 << (at % 8)
			ix := reopened(t, bad, tinyDims, testModel)
			st := ix.Stats()
			switch {
			case st.Rebuilt != "":
				rebuilt++
			case st.Dropped > 0 && flushed == 0:
				dropped++
				if st.Count != len(m)-1 && st.Count != len(m) {
					t.Fatalf("bit %d: %d vectors are left of %d", at, st.Count, len(m))
				}
			case st.Count != len(m) || st.Dropped > 0:
				t.Fatalf("bit %d: %+v, want %d vectors", at, st, len(m))
			}
			usableAfter(t, "one bit", ix, m)
			abandon(ix)
		}
		if rebuilt == 0 || flushed == 0 && dropped == 0 {
			t.Errorf("flushed %d: rebuilt %d times, dropped %d times", flushed, rebuilt, dropped)
		}
	}
}

// failing is a disk with room for a limited number of bytes, which then fails in the middle of a write.
type failing struct {
	disk
	room int
	err  error
}

func (f *failing) WriteAt(b []byte, at int64) (int, error) {
	if len(b) <= f.room {
		f.room -= len(b)
		return f.disk.WriteAt(b, at)
	}
	n, _ := f.disk.WriteAt(b[:f.room], at)
	f.room = 0
	return n, f.err
}

func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	s := newSource(5, tinyDims)
	for room := 0; room < 900; room += 7 {
		dir := t.TempDir()
		ix := open(t, dir, tinyDims)
		m := model{}
		for i := range uint32(30) {
			m[i] = Vector{ID: i, Tag: uint64(i), Values: s.vector()}
			must(t, ix.Add(i, m[i].Tag, m[i].Values))
		}
		for i := range uint32(5) { // leaves slots for reuse
			must(t, ix.Remove(i))
			delete(m, i)
		}
		real := ix.file.f
		full := &failing{disk: real, room: room, err: &os.PathError{Op: "write", Err: syscall.ENOSPC}}
		ix.file.f = full
		batch := make([]Vector, 20)
		for i := range batch {
			batch[i] = Vector{ID: uint32(100 + i), Tag: 9, Values: s.vector()}
		}
		err := ix.AddBatch(batch)
		full.room = 1 << 30 // there is space again
		if err == nil {
			for _, v := range batch {
				m[v.ID] = v
			}
		} else if !fault.Is(err, fault.Limit) || err.(*fault.Error).Message != "The disk is full. Nothing was changed." {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		m.same(t, ix)
		if ix.broken == nil {
			v := Vector{ID: 77, Tag: 7, Values: s.vector()}
			must(t, ix.Add(77, 7, v.Values))
			m[77] = v
		}
		ix.file.f = real
		stuck := ix.broken != nil
		abandon(ix)
		ix = open(t, dir, tinyDims)
		if st := ix.Stats(); st.Rebuilt != "" {
			t.Fatalf("room for %d bytes: %s", room, st.Rebuilt)
		}
		if stuck { // the writes before the failure could not be undone
			for _, v := range batch {
				if _, ok := ix.Tag(v.ID); ok {
					m[v.ID] = v
				}
			}
		}
		m.same(t, ix)
		abandon(ix)
	}
}

func TestDiskFails(t *testing.T) {
	t.Parallel()
	ix := open(t, t.TempDir(), tinyDims)
	s := newSource(6, tinyDims)
	real := ix.file.f
	ix.file.f = &failing{disk: real, err: errors.New("input/output error")}
	if err := ix.Add(1, 1, s.vector()); !fault.Is(err, fault.Internal) {
		t.Errorf("Add: %v", err)
	}
	ix.file.f = real
}

func FuzzOpen(f *testing.F) {
	good, _ := written(f, 7, 12, 8)
	f.Add(good)
	f.Add(good[:len(good)-9])
	f.Add(good[:600])
	f.Add([]byte(magic))
	flipped := slices.Clone(good)
	flipped[len(flipped)-30] ^= 1
	f.Add(flipped)
	f.Fuzz(func(t *testing.T, b []byte) {
		ix := reopened(t, b, tinyDims, testModel)
		q := []float32{1, 2, 3, 4, 5, 6}
		ix.Search(q, 3, SearchOptions{})
		if st := ix.Stats(); st.Rebuilt != "" && st.Count != 0 {
			t.Errorf("%+v", st)
		}
		must(t, ix.Add(1, 1, q))
		if hits := ix.Search(q, 1, SearchOptions{}); len(hits) != 1 || hits[0].Score < 0.999 {
			t.Errorf("found %v", hits)
		}
		abandon(ix)
	})
}

// A process that ends between writing a vector and removing its older version leaves both. The
// newer one is used, even if it precedes the older one in the file.
func TestNewerVersionCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ix := open(t, dir, tinyDims)
	s := newSource(8, tinyDims)
	m := model{}
	add := func(id uint32) uint32 {
		m[id] = Vector{ID: id, Tag: s.r.Uint64(), Values: s.vector()}
		must(t, ix.Add(id, m[id].Tag, m[id].Values))
		slot, _ := ix.rows.get(id)
		return slot
	}
	for i := range uint32(8) {
		add(i)
	}
	must(t, ix.Remove(0))
	delete(m, 0)
	if slot := add(5); slot != 0 {
		t.Fatalf("slot %d, want the free one before the older version", slot)
	}
	add(6)
	must(t, ix.file.mark(5, flagLive))
	must(t, ix.file.mark(6, flagLive))
	for range 2 {
		abandon(ix)
		ix = open(t, dir, tinyDims)
		if st := ix.Stats(); st.Rebuilt != "" || st.Dropped != 0 {
			t.Fatalf("%+v", st)
		}
		m.same(t, ix)
	}
}
