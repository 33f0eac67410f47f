package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/storage"
)

func bytesReader(b []byte) *bytes.Reader { return bytes.NewReader(b) }

// TestPlantedSecrets checks that known values never reach the details, the export or a redacted
// error, in any encoding.
func TestPlantedSecrets(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	secret := "Zq8/x+Tf w&\"4Hh2Kp"
	forget := e.s.KnowSecret(secret)
	forms := map[string]any{
		"plain":      "a " + secret + " b",
		"base64":     base64.StdEncoding.EncodeToString([]byte(secret)),
		"basic auth": "Authorization: " + base64.StdEncoding.EncodeToString([]byte("user:"+secret)),
		"base64url":  base64.RawURLEncoding.EncodeToString([]byte("xy" + secret + "z")),
		"url":        "https://a.example.com/?k=" + url.QueryEscape(secret),
		"path":       "https://a.example.com/" + url.PathEscape(secret),
		"hex":        hex.EncodeToString([]byte(secret)),
		"key":        map[string]any{secret: 1},
		"chunks":     []string{"… " + secret[:5], secret[5:11], secret[11:] + " …"},
		"json":       `{"k":` + quote(secret) + `}`,
		"error":      errors.New("dial " + secret).Error(),
	}
	for name, v := range forms {
		e.append(Entry{Action: NetworkCall, SubjectID: name, Details: map[string]any{"v": v}})
	}
	e.append(Entry{Action: NetworkCall, Details: "ends with " + secret[:9]}, Entry{Action: NetworkCall, Details: secret[9:] + " begins"})
	export := string(e.export())
	var stored string
	if err := e.db.Read(e.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT group_concat(details, '') FROM audit_details`).Scan(&stored)
	}); err != nil {
		t.Fatal(err)
	}
	flat := func(s string) string { // how someone would join the parts
		return strings.NewReplacer(`","`, "", `\"`, `"`, " … ", "").Replace(s)
	}
	for _, text := range []string{stored, export, flat(stored), e.s.Redact("could not use " + secret)} {
		for _, f := range encodings(secret) {
			if strings.Contains(text, f) {
				t.Errorf("found %q in %.3000s", f, text)
			}
		}
		for _, part := range []string{secret[:8], secret[5:11], secret[11:]} {
			if strings.Contains(text, part) {
				t.Errorf("found the part %q", part)
			}
		}
	}
	forget()
	forget()
	if got := e.s.Redact("x " + secret); got != "x "+secret {
		t.Errorf("still known: %q", got)
	}
}

func quote(s string) string { b, _ := json.Marshal(s); return string(b) }

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, leak string }{
		{`"Authorization: Bearer abcdef0123456789"`, "abcdef0123456789"},
		{`{"password":"hunter2"}`, "hunter2"},
		{`{"headers":{"Authorization":"x","Set-Cookie":"sid=12345"}}`, "sid"},
		{`"sk-proj-abcdefghijklmnopqrstuvwx"`, "abcdefghijkl"},
		{`"ghp_0123456789abcdefghijABCDEFGHIJ012345"`, "0123456789abc"},
		{`"AKIAIOSFODNN7EXAMPLE"`, "IOSFODNN7"},
		{`"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"`, "dozjgNry"},
		{`"postgres://me:s3cr3tpw@db.example.com/x"`, "s3cr3tpw"},
		{`"-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"`, "MIIEow"},
		{`"api_key=abcd1234efgh"`, "abcd1234"},
		{`{"a":["token: 0123456789abc"]}`, "0123456789abc"},
	} {
		out, err := encodeDetails(json.RawMessage(c.in), nil)
		if err != nil || strings.Contains(string(out), c.leak) || !json.Valid(out) || !strings.Contains(string(out), mask) {
			t.Errorf("%s gave %s (%v)", c.in, out, err)
		}
	}
	for _, keep := range []string{
		`{"digest":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","host":"api.example.com"}`, `{"tokens":128,"text":"the secretary of state"}`,
		`{"capability":"secret(openai)","id":"0190f1c2-7b7c-7000-8000-000000000000"}`, `["a",1,null,true,{"b":[]}]`, `""`, `0`,
	} {
		out, err := encodeDetails(json.RawMessage(keep), nil)
		if err != nil || string(out) != keep {
			t.Errorf("%s became %s (%v)", keep, out, err)
		}
	}
}

func TestKnownNumber(t *testing.T) {
	t.Parallel()
	var r Redactor
	r.Add("48151623")
	r.Add("abc") // too short to be registered
	out, err := encodeDetails(map[string]any{"pin": 48151623, "list": []int{1, 48151623}, "t": "abc 48151623"}, &r)
	if err != nil || strings.Contains(string(out), "48151623") || !json.Valid(out) || !strings.Contains(string(out), "abc") {
		t.Fatalf("%s %v", out, err)
	}
}

// FuzzRedact checks that a known value never passes, whatever surrounds it, and that the result is
// JSON of limited size.
func FuzzRedact(f *testing.F) {
	f.Add("before ", " after")
	f.Add("\"\\", "\u2028é")
	f.Add("{\"a\":", "}")
	f.Fuzz(func(t *testing.T, a, b string) {
		const secret = "Correct-Horse_42!"
		var r Redactor
		r.Add(secret)
		out, err := encodeDetails(map[string]any{"x": a + secret + b, a: []string{secret[:9], secret[9:]}}, &r)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(out, []byte(secret)) || !json.Valid(out) || len(out) > maxDetails {
			t.Fatalf("%s", out)
		}
	})
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{Name: nil})
	run := storage.NewID()
	e.many(300)
	e.append(Entry{Action: Start, SubjectKind: "tool", SubjectID: "needle", RunID: run, Details: map[string]any{"say": "50% of a_b"}},
		Entry{Action: PermissionCheck, SubjectKind: "tool", SubjectID: "needle", RunID: run, Outcome: Denied})
	e.many(300)
	at := func(seq int64) LogEntry {
		g, err := e.s.Get(e.ctx, GetParams{Seq: seq})
		if err != nil {
			t.Fatal(err)
		}
		return g.LogEntry
	}
	start := at(301)
	for name, c := range map[string]struct {
		p    ListParams
		want int
	}{
		"run":              {ListParams{RunID: &run}, 2},
		"subject":          {ListParams{SubjectID: "needle"}, 2},
		"outcome":          {ListParams{Outcome: Denied}, 1},
		"ok":               {ListParams{Outcome: OK, Limit: 100}, 100},
		"action":           {ListParams{Actions: []string{Start}}, 1},
		"actions":          {ListParams{Actions: []string{Start, PermissionCheck}}, 2},
		"none":             {ListParams{Actions: []string{"x"}}, 0},
		"text":             {ListParams{Text: "50% of A_b"}, 1},
		"percent is data":  {ListParams{Text: "0%_"}, 0},
		"quote is data":    {ListParams{Text: `'" --`}, 0},
		"text and outcome": {ListParams{Text: "needle", Outcome: Denied}, 1},
		"from":             {ListParams{From: &start.Timestamp, Actions: []string{Start}}, 1},
		"to":               {ListParams{To: &start.Timestamp, SubjectID: "needle"}, 2},
		"before":           {ListParams{SubjectID: "needle", Before: 302}, 1},
	} {
		got := 0
		for p := c.p; ; {
			l, err := e.s.List(e.ctx, p)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i := 1; i < len(l.Entries); i++ {
				if l.Entries[i-1].Seq <= l.Entries[i].Seq {
					t.Fatalf("%s: order", name)
				}
			}
			if got += len(l.Entries); l.Next == nil || got >= c.want {
				break
			}
			p.Before = *l.Next
		}
		if got != c.want {
			t.Errorf("%s: %d entries, want %d", name, got, c.want)
		}
	}
	n := 0
	for p := (ListParams{Limit: 64}); ; {
		l, err := e.s.List(e.ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if n += len(l.Entries); l.Next == nil {
			break
		}
		p.Before = *l.Next
	}
	if n != 602 {
		t.Errorf("paging gave %d of 602", n)
	}
	for _, p := range []ListParams{{Limit: 101}, {Limit: -1}, {Before: -1}, {Text: strings.Repeat("x", 201)}} {
		if _, err := e.s.List(e.ctx, p); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, err := e.s.Get(e.ctx, GetParams{Seq: 9999}); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

// TestMerkle uses the published test vectors of RFC 6962 tree heads.
func TestMerkle(t *testing.T) {
	t.Parallel()
	leaves := []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"}
	roots := []string{ // of 0 to 8 leaves
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	}
	var m merkle
	for i, want := range roots {
		if got := hexOf(m.root()); got != want {
			t.Errorf("%d leaves: %s, want %s", i, got, want)
		}
		if i < len(leaves) {
			b, _ := hex.DecodeString(leaves[i])
			m.push(hashDetails(append([]byte{0}, b...)))
		}
	}
}
