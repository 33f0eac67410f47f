package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
)

func FuzzFrame(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"a.b","params":{"x":[1,{"y":null}]}}`, `[{"id":1},2,"x"]`, `[]`, `{"a":1,"a":2}`, `"\ud800"`, "\xff", `{"jsonrpc":"2.0","id":1e5}`,
		strings.Repeat("[", 70), `{"\u0061":1,"a":2}`, `-0.5e+3`, `{"id":"` + strings.Repeat("x", 300) + `"}`, " \n\t{} "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		reqs, _, err := parseFrame(b)
		if err != nil {
			if !isFrameError(err) {
				t.Fatalf("unnamed error %v", err)
			}
			return
		}
		if !json.Valid(b) {
			t.Fatalf("taken, but not JSON: %q", b)
		}
		if validate(b) != nil {
			t.Fatalf("parseFrame and validate disagree: %q", b)
		}
		for _, r := range reqs {
			if r.bad != nil && r.id == nil {
				t.Fatalf("a bad request without an id to answer: %q", b)
			}
			if r.id != nil && !json.Valid(r.id) {
				t.Fatalf("id %q", r.id)
			}
		}
	})
}

func FuzzParams(f *testing.F) {
	p := newTypes().plan(reflect.TypeFor[everything]())
	for _, s := range []string{`{"id":"0190a000-0000-7000-8000-000000000001"}`, `{"nested":{"":[{"at":"x"}]}}`, `{"raw":{"a":[[]]},"id":null}`, `{"inner":{"deep":null}}`, `{"\u0069d":1}`, `{"data":"a"}`, `{"big":"1e3"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if validate(b) != nil || len(b) == 0 {
			return
		}
		b = bytes.TrimLeft(b, " \t\r\n")
		var v everything
		if err := decodeParams(b, p, false, &v); err != nil {
			if _, ok := err.(*wireError); !ok { //nolint:errorlint // nothing wraps it
				t.Fatalf("%q: %T %v", b, err, err)
			}
			return
		}
		if _, err := json.Marshal(v); err != nil {
			t.Fatalf("%q decodes to what does not encode: %v", b, err)
		}
	})
}

func FuzzTopics(f *testing.F) {
	for _, s := range []string{"*", "a.*", "a.b", "a.", ".*", "A.b", "a..b", "a.*.b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !topicPattern.MatchString(s) {
			return
		}
		var sub subscription
		sub.add([]string{s})
		sub.matches("note.added")
		sub.remove([]string{s})
		if sub.count() != 0 {
			t.Fatalf("%q stays", s)
		}
	})
}

func FuzzUpload(f *testing.F) {
	for _, s := range []string{"--b\r\nContent-Disposition: form-data; name=\"audio\"\r\n\r\nx\r\n--b--\r\n", "--b--", "--b\r\n\r\n", "", "--b\r\nContent-Disposition: form-data; name=\"audio\"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=3\r\n--b"} {
		f.Add(s, "multipart/form-data; boundary=b")
	}
	f.Add("x", "multipart/form-data; boundary=\"")
	f.Fuzz(func(t *testing.T, body, kind string) {
		dir := t.TempDir()
		r := httptest.NewRequest(http.MethodPost, "/transcribe", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		u, err := ReceiveUpload(httptest.NewRecorder(), r, "audio", 64, dir)
		if err == nil {
			if u.Size > 64 {
				t.Fatalf("%d bytes taken", u.Size)
			}
			if err := u.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Fatalf("left behind: %v %v", left, err)
		}
	})
}
