package scrub

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

var alphabets = map[string]string{
	"a": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
	"t": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
	"h": "0123456789abcdef", "d": "0123456789", "l": "abcdefghijklmnopqrstuvwxyz",
	"U": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
}

var slot = regexp.MustCompile(`\{(\d+):(\w)\}`)

// fill returns a text from a template, and its random parts.
func fill(r *rand.Rand, template string) (text string, parts []string) {
	text = slot.ReplaceAllStringFunc(strings.ReplaceAll(template, `\n`, "\n"), func(m string) string {
		f := slot.FindStringSubmatch(m)
		n, _ := strconv.Atoi(f[1])
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabets[f[2]][r.IntN(len(alphabets[f[2]]))]
		}
		parts = append(parts, string(b))
		return string(b)
	})
	return text, parts
}

func templates(t testing.TB, name string) (all []string) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := s.Text(); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

func source() *rand.Rand { return rand.New(rand.NewPCG(26, 10)) }

// longest returns the part of a secret that must not be guessable.
func longest(parts []string) (best string) {
	for _, p := range parts {
		if len(p) > len(best) {
			best = p
		}
	}
	return best
}

func TestFormsAreReplaced(t *testing.T) {
	t.Parallel()
	r, s := source(), New(nil, Options{})
	all, total, missed := templates(t, "forms.txt"), 0, 0
	for _, line := range all {
		name, template, _ := strings.Cut(line, " ")
		for range 12 {
			text, parts := fill(r, template)
			total++
			if out := s.String("He wrote: " + text + "\nand left."); strings.Contains(out, longest(parts)) || !strings.HasSuffix(out, "\nand left.") {
				missed++
				t.Logf("%s: %s", name, out)
			}
		}
	}
	t.Logf("%d forms, %d secrets, %d missed", len(all), total, missed)
	if len(all) < 40 || total < 500 || missed*100 > total*2 {
		t.Errorf("%d of %d secrets of %d forms missed", missed, total, len(all))
	}
}

func TestLookalikesPass(t *testing.T) {
	t.Parallel()
	r, s := source(), New(nil, Options{})
	total, changed := 0, 0
	for _, template := range templates(t, "lookalikes.txt") {
		for range 70 {
			text, _ := fill(r, template)
			total++
			if out := s.String("see " + text + " there"); out != "see "+text+" there" {
				changed++
				t.Logf("%s -> %s", text, out)
			}
		}
	}
	t.Logf("%d look-alikes, %d changed", total, changed)
	if total < 2000 || changed*100 > total {
		t.Errorf("%d of %d look-alikes changed", changed, total)
	}
}

func knownSecrets(n int) (all []Secret) {
	r := source()
	for i := range n {
		v, _ := fill(r, []string{"{20:a}", "{40:t}", "pä/s+w \"<{12:a}>&'", "sk-x-{30:h}"}[i%4])
		all = append(all, Secret{Name: fmt.Sprint("k", i), Value: v})
	}
	return all
}

// stream writes text in parts that end at the given offsets.
func stream(t testing.TB, s *Scrubber, text string, cuts ...int) string {
	var out bytes.Buffer
	w := s.Writer(&out)
	at := 0
	for _, c := range append(cuts, len(text)) {
		if _, err := w.Write([]byte(text[at:c])); err != nil {
			t.Fatal(err)
		}
		at = c
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestKnownValuesAreReplacedInEveryEncodingAndSplit(t *testing.T) {
	t.Parallel()
	known := knownSecrets(500)
	s := New(known, Options{})
	checked := 0
	for i, k := range known {
		j, _ := json.Marshal(k.Value)
		texts := []string{k.Value, hex.EncodeToString([]byte(k.Value)), strings.ToUpper(hex.EncodeToString([]byte(k.Value))),
			url.QueryEscape(k.Value), url.PathEscape(k.Value), string(j[1 : len(j)-1])}
		for offset := range 3 {
			for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				texts = append(texts, e.EncodeToString([]byte("xyz"[:offset]+k.Value+"end")))
			}
		}
		for _, text := range texts {
			text = "Before " + text + " after"
			out := s.String(text)
			checked++
			if !strings.Contains(out, "[secret "+k.Name+"]") {
				t.Errorf("%q -> %q", text, out)
			}
			if i >= 20 {
				continue
			}
			for c := range len(text) {
				if got := stream(t, s, text, c); got != out {
					t.Fatalf("split at %d: %q, want %q", c, got, out)
				}
			}
		}
	}
	t.Logf("%d known values in %d encodings", len(known), checked)
}

func TestHostPathsBecomeVirtual(t *testing.T) {
	t.Parallel()
	s := New([]Secret{{"p", "/home/ann/hidden"}}, Options{Paths: map[string]string{"/home/ann": "/shared/home", `C:\Users\Ann`: "/shared/c"}})
	for in, want := range map[string]string{
		"open /home/ann/a.txt":      "open /shared/home/a.txt",
		"open /home/anna/a.txt":     "open /home/anna/a.txt",
		"in /home/ann":              "in /shared/home",
		`{"p":"C:\\Users\\Ann\\x"}`: `{"p":"/shared/c\\x"}`,
		"/home/ann/hidden":          "[secret p]",
	} {
		if got := s.String(in); got != want {
			t.Errorf("%q -> %q, want %q", in, got, want)
		}
		for c := range len(in) {
			if got := stream(t, s, in, c); got != want {
				t.Errorf("%q split at %d -> %q", in, c, got)
			}
		}
	}
}

func TestNameThatIsTheSecretIsNotShown(t *testing.T) {
	t.Parallel()
	s := New([]Secret{{"Zq81-abcdef", "Zq81-abcdef"}}, Options{})
	if got := s.String("x Zq81-abcdef y"); got != "x [secret] y" {
		t.Error(got)
	}
}

func FuzzSplitsAndRepeats(f *testing.F) {
	known := knownSecrets(40)
	s := New(known, Options{Paths: map[string]string{"/home/ann": "/shared/home"}})
	r := source()
	for i, line := range templates(f, "forms.txt") {
		_, template, _ := strings.Cut(line, " ")
		text, _ := fill(r, template)
		f.Add("é "+text+known[i%40].Value+" token="+text+"/home/ann", uint16(i*7), uint16(i*3))
	}
	f.Fuzz(func(t *testing.T, text string, a, b uint16) {
		out := s.String(text)
		if utf8.ValidString(text) && !utf8.ValidString(out) {
			t.Errorf("%q -> %q is not UTF-8", text, out)
		}
		if again := s.String(out); again != out {
			t.Errorf("%q -> %q -> %q", text, out, again)
		}
		x, y := int(a)%(len(text)+1), int(b)%(len(text)+1)
		if got := stream(t, s, text, min(x, y), max(x, y)); got != out {
			t.Errorf("split at %d and %d: %q, want %q", x, y, got, out)
		}
	})
}

func TestLongStreamEqualsString(t *testing.T) {
	t.Parallel()
	r := source()
	known := knownSecrets(500)
	s := New(known, Options{})
	forms := templates(t, "forms.txt")
	var b strings.Builder
	for b.Len() < 1<<20 {
		_, template, _ := strings.Cut(forms[r.IntN(len(forms))], " ")
		text, _ := fill(r, template)
		words, _ := fill(r, strings.Repeat("{5:l} {7:l} ", r.IntN(200)))
		b.WriteString(words + text + " " + known[r.IntN(len(known))].Value + "\n")
	}
	text := b.String()
	var cuts []int
	for at := r.IntN(9000); at < len(text); at += r.IntN(9000) {
		cuts = append(cuts, at)
	}
	if stream(t, s, text, cuts...) != s.String(text) {
		t.Error("the stream differs")
	}
}

func BenchmarkString(b *testing.B) {
	r := source()
	var hexes []Secret
	for i := range 500 {
		hexes = append(hexes, Secret{Name: fmt.Sprint("k", i), Value: fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())})
	}
	for name, c := range map[string]struct {
		known    []Secret
		template string
	}{
		"prose": {knownSecrets(500), "the {5:l} of {7:l} is in {4:l}. {9:l}: \"{3:d}\", {2:l} {8:h}\n"},
		// Each line has words that announce a secret, and digits that begin like the known values.
		"near": {hexes, "line {5:d}: the boat of number{3:d} is in {16:h}; token and key are words\n"},
	} {
		b.Run(name, func(b *testing.B) {
			s := New(c.known, Options{})
			var text strings.Builder
			for text.Len() < 4<<20 {
				line, _ := fill(r, c.template)
				text.WriteString(line)
			}
			all := text.String()
			b.SetBytes(int64(len(all)))
			for b.Loop() {
				s.String(all)
			}
		})
	}
}
