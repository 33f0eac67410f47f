package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// reseal writes the lines again with a matching trailer, but without its signature, as any forger can.
func reseal(lines []string) string { return resealBy(lines, nil, nil) }

// resealBy is reseal by someone who has the key.
func resealBy(lines []string, key ed25519.PublicKey, sign func([]byte) ([]byte, error)) string {
	body := strings.Join(lines[:len(lines)-1], "\n") + "\n"
	var n, g int64
	for _, l := range lines {
		if strings.HasPrefix(l, entryStart) {
			n++
		}
		if strings.HasPrefix(l, segmentStart) {
			g++
		}
	}
	sum := sha256.Sum256([]byte(body))
	t := trailer{T: "end", Entries: n, Segments: g, SHA256: hex.EncodeToString(sum[:]), PublicKey: hexBytes(key)}
	if sign != nil {
		sig, err := sign(t.message())
		if err != nil {
			panic(err)
		}
		t.Signature = hexBytes(sig)
	}
	end, _ := json.Marshal(t)
	return body + string(end) + "\n"
}

func sample(t *testing.T) (*env, []byte) {
	e := setup(t, Options{})
	e.many(4)
	e.append(Entry{Action: NetworkCall, SubjectKind: "tool", SubjectID: "t\"1", Outcome: Denied, RunID: storage.NewID(), Details: map[string]any{"host": "a.example.com", "note": "é \" \\ \n"}})
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	e.many(2)
	return e, e.export()
}

// TestEachByte flips one bit of each byte of an export: every change is detected.
func TestEachByte(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	e, b := sample(t)
	if r, err := Verify(bytes.NewReader(b), e.keys()); err != nil || !r.OK || r.Entries != 10 || r.Segments != 2 || r.Unsigned != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	for i := range b {
		m := byte(1) << (i % 8)
		b[i] ^= m
		r, err := Verify(bytes.NewReader(b), e.keys())
		if err == nil && r.OK || err != nil && fault.KindOf(err) != fault.Invalid {
			t.Fatalf("byte %d of %d (%q) xor %x: %+v %v", i, len(b), b[i]^m, m, r, err)
		}
		b[i] ^= m
	}
}

// TestForgedLines changes the export and updates its trailer.
func TestForgedLines(t *testing.T) {
	t.Parallel()
	e, b := sample(t)
	orig := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	e2, other := sample(t)
	_ = e2
	foreign := strings.Split(strings.TrimSuffix(string(other), "\n"), "\n")
	find := func(prefix string, nth int) int {
		for i, l := range orig {
			if strings.HasPrefix(l, prefix) {
				if nth == 0 {
					return i
				}
				nth--
			}
		}
		t.Fatalf("no %s", prefix)
		return 0
	}
	third, seg := find(entryStart, 2), find(segmentStart, 0)
	for _, c := range []struct {
		name, problem string
		edit          func(l []string) []string
	}{
		{"nothing", "", func(l []string) []string { return l }},
		{"delete an entry", ProblemGap, func(l []string) []string { return append(l[:third:third], l[third+1:]...) }},
		{"swap entries", ProblemOrder, func(l []string) []string { l[third], l[third+1] = l[third+1], l[third]; return l }},
		{"duplicate an entry", ProblemDuplicate, func(l []string) []string { return append(l[:third:third], append([]string{l[third]}, l[third:]...)...) }},
		{"insert a foreign entry", ProblemOrder, func(l []string) []string {
			return append(l[:third:third], append([]string{foreign[third]}, l[third:]...)...)
		}},
		{"splice a foreign segment", "", func(l []string) []string { l[seg] = foreign[seg]; return l }},
		{"splice everything of another device", "", func(l []string) []string { return append(append([]string{l[0]}, foreign[1:seg+1]...), l[seg+1:]...) }},
		{"other details", ProblemHash, func(l []string) []string {
			l[third] = strings.Replace(l[third], `"details":{"i":2}`, `"details":{"i":3}`, 1)
			return l
		}},
		{"drop a segment", ProblemGap, func(l []string) []string { return append(l[:seg:seg], l[seg+1:]...) }},
		{"drop the newest entries", ProblemTruncated, func(l []string) []string { return append(l[:seg+1:seg+1], l[len(l)-1]) }},
		{"erase details", ProblemDetails, func(l []string) []string {
			l[third] = strings.Replace(l[third], `"details":{"i":2}`, `"details":null`, 1)
			return l
		}},
		{"spaces", ProblemHash, func(l []string) []string { l[third] = strings.Replace(l[third], `,"id"`, `, "id"`, 1); return l }},
		{"upper case", ProblemHash, func(l []string) []string {
			l[third] = l[third][:60] + strings.ToUpper(l[third][60:90]) + l[third][90:]
			return l
		}},
		{"an empty line", ProblemHash, func(l []string) []string { return append(l[:third:third], append([]string{""}, l[third:]...)...) }},
		{"a huge line", ProblemHash, func(l []string) []string {
			return append(l[:third:third], append([]string{strings.Repeat("x", 3*chunkSize)}, l[third:]...)...)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lines := c.edit(append([]string(nil), orig...))
			head := segmentHead(t, orig[len(orig)-2])
			text := reseal(lines)
			if c.name == "nothing" {
				text = resealBy(lines, e.db.Device().PublicKey, e.db.Sign)
			}
			r, err := verifyAgainst(strings.NewReader(text), e.keys(), head)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.name == "nothing":
				if !r.OK {
					t.Fatalf("%+v", r)
				}
			case r.OK || c.problem != "" && r.Problem != c.problem:
				t.Fatalf("%+v, want %s", r, c.problem)
			}
		})
	}
	for _, cut := range []int{len(b) - 1, len(b) / 2, len(orig[0]) + 1} {
		if r, err := Verify(bytes.NewReader(b[:cut]), e.keys()); err != nil || r.OK {
			t.Fatalf("cut at %d: %+v %v", cut, r, err)
		}
	}
	if r, err := Verify(bytes.NewReader(append(bytes.Clone(b), "{}\n"...)), e.keys()); err != nil || r.OK {
		t.Fatalf("%+v %v", r, err)
	}
}

func segmentHead(t *testing.T, line string) *Head {
	var s segment
	if err := parseSegment([]byte(line), &s); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	h := Head{Device: s.Device}.with(&s)
	return &h
}

func TestUnknownKeyStillChecksTheChain(t *testing.T) {
	t.Parallel()
	_, b := sample(t)
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Verify(bytes.NewReader(b), []ed25519.PublicKey{pub})
	if err != nil || r.OK || r.Problem != ProblemUnknownKey || r.Entries != 10 {
		t.Fatalf("%+v %v", r, err)
	}
	bad := bytes.Replace(b, []byte(`"outcome":"denied"`), []byte(`"outcome":"okokok"`), 1)
	if r, err = Verify(bytes.NewReader(bad), nil); err != nil || r.Problem != ProblemHash {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestNotAnExport(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "hello\n", "\x00\x01"} {
		if r, err := Verify(strings.NewReader(s), nil); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %+v %v", s, r, err)
		}
	}
}

// appendKeyChange writes the entry that transfers trust from the old key of this device to a new
// one; both sign it. From then on the new key is used.
func appendKeyChange(tx *storage.Tx, old, next ed25519.PublicKey, signOld, signNew func([]byte) ([]byte, error)) error {
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

// TestKeyChange checks that an entry signed by both keys transfers trust.
func TestKeyChange(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	e.many(1)
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
		return appendKeyChange(tx, e.db.Device().PublicKey, pub, e.db.Sign, func(b []byte) ([]byte, error) { return ed25519.Sign(priv, b), nil })
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.s.EraseDetails(e.ctx, EraseParams{SubjectID: e.db.Device().ID.String()}); err != nil {
		t.Fatal(err)
	}
	b := e.export()
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	i := len(lines) - 2
	var s segment
	if err := parseSegment([]byte(lines[i]), &s); err != nil {
		t.Fatal(err)
	}
	s.Key, s.Signature = pub, nil
	s.Signature = ed25519.Sign(priv, s.message())
	lines[i] = string(appendSegmentLine(nil, &s))
	sign := func(b []byte) ([]byte, error) { return ed25519.Sign(priv, b), nil }
	if r, err := Verify(strings.NewReader(resealBy(lines, pub, sign)), e.keys()); err != nil || !r.OK {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := Verify(strings.NewReader(resealBy(append(lines[:2:2], lines[4:]...), pub, sign)), e.keys()); err != nil || r.OK {
		t.Fatalf("without the entry: %+v %v", r, err)
	}
}

func TestExportFile(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{SegmentEntries: 8})
	e.many(30)
	mid := time.Now()
	e.many(30)
	dir := t.TempDir()
	path := filepath.Join(dir, "a.jsonl")
	res, err := e.s.Export(e.ctx, ExportParams{Path: path})
	if err != nil || res.Entries < 61 || res.Path != path {
		t.Fatalf("%+v %v", res, err)
	}
	if fi, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", fi, err)
	}
	if _, err := e.s.Export(e.ctx, ExportParams{Path: path}); fault.KindOf(err) != fault.Conflict {
		t.Fatal(err)
	}
	for _, bad := range []string{"rel.jsonl", "", filepath.Join(dir, "no", "such", "dir")} {
		if _, err := e.s.Export(e.ctx, ExportParams{Path: bad}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	part := filepath.Join(dir, "part.jsonl")
	if res, err = e.s.Export(e.ctx, ExportParams{Path: part, From: &mid}); err != nil || res.Entries > 60 || res.Entries < 30 {
		t.Fatalf("%+v %v", res, err)
	}
	b, _ := os.ReadFile(part)
	if r, err := Verify(bytes.NewReader(b), e.keys()); err != nil || !r.OK || r.FirstSeq < 20 {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := e.s.Verify(e.ctx, VerifyParams{From: &mid}); err != nil || !r.OK || r.FirstSeq < 20 {
		t.Fatalf("%+v %v", r, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".audit*")); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func FuzzVerify(f *testing.F) {
	db := storagetest.Open(f)
	s := New(db, Options{})
	ctx := storagetest.Ctx(f, db)
	if err := s.Record(ctx, Entry{Action: Start, Details: "x"}, Entry{Action: Complete, SubjectID: "é\""}); err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(f.TempDir(), "x")
	if _, err := s.Export(ctx, ExportParams{Path: path}); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	key := []ed25519.PublicKey{db.Device().PublicKey}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"t":"header","format":"helix-audit"}` + "\n" + entryStart + "99999999999999999999"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Verify(bytes.NewReader(b), key)
		if err == nil && r.OK && r.SignedThrough > 0 && !bytes.Equal(b, good) && !bytes.Contains(b, []byte(`"details":null`)) {
			// The signed entries must still be unchanged.
			if r.SignedThrough != 4 {
				t.Fatalf("%+v", r)
			}
		}
	})
}
