package providers

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"helix/backend/fault"
)

// However the transport ends or packs a stream, of each wire, an answer is whole or an error with the text
// so far: never a part that counts as whole.
func TestBrokenTransportNeverMakesAPartialAnswerWhole(t *testing.T) {
	t.Parallel()
	zip := func(s string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(s))
		_ = z.Close()
		return b.Bytes()
	}
	rnd := rand.New(rand.NewPCG(6, 1))
	seen := map[string]bool{}
	for _, x := range recorded(t) {
		wire, body := x.Wire, x.Body
		if !x.Streamed || seen[wire] || len(body) < 1000 {
			continue
		}
		_, want, err := decodeAll(wire, strings.NewReader(body))
		if err != nil || len(want.Text()) < 50 {
			continue
		}
		seen[wire] = true
		packed := zip(body)
		raw := func(w http.ResponseWriter, send func(c *net.TCPConn)) {
			c, _, err := http.NewResponseController(w).Hijack()
			must(t, err)
			defer c.Close()
			send(c.(*net.TCPConn))
		}
		const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
		for name, send := range map[string]func(c *net.TCPConn, cut int){
			"gzip": func(c *net.TCPConn, _ int) {
				_, _ = fmt.Fprintf(c, "%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", head, len(packed), packed)
			},
			"gzip that is cut": func(c *net.TCPConn, cut int) {
				_, _ = fmt.Fprintf(c, "%sContent-Encoding: gzip\r\nConnection: close\r\n\r\n%s", head, packed[:len(packed)*cut/len(body)])
			},
			"length too long": func(c *net.TCPConn, cut int) {
				_, _ = fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", head, len(body)+100, body[:cut])
			},
			"length too short": func(c *net.TCPConn, cut int) {
				_, _ = fmt.Fprintf(c, "%sConnection: close\r\nContent-Length: %d\r\n\r\n%s", head, cut, body)
			},
			"half-close": func(c *net.TCPConn, cut int) {
				_, _ = fmt.Fprintf(c, "%sConnection: close\r\n\r\n%s", head, body[:cut])
				_ = c.CloseWrite()
				_, _ = c.Read(make([]byte, 1))
			},
			"chunk that is cut": func(c *net.TCPConn, cut int) {
				_, _ = fmt.Fprintf(c, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", head, len(body), body[:cut])
			},
			"whole, half-closed": func(c *net.TCPConn, _ int) {
				_, _ = fmt.Fprintf(c, "%sConnection: close\r\n\r\n%s", head, body)
				_ = c.CloseWrite()
				_, _ = c.Read(make([]byte, 1))
			},
		} {
			for range 6 {
				cut := 1 + rnd.IntN(len(body)-1)
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { raw(w, func(c *net.TCPConn) { send(c, cut) }) }))
				k := setup(t, map[string]Entry{"a": {Type: wire, BaseURL: s.URL, SkipCatalogValidation: true}}, nil)
				got, err := k.Complete(t.Context(), ask("a/m"))
				s.Close()
				switch {
				case err == nil && (got.Text() != want.Text() || len(got.Calls()) != len(want.Calls()) || got.Reason != want.Reason):
					t.Errorf("%s, %s at %d of %d counts as whole: %q", wire, name, cut, len(body), got.Text())
				case err != nil && (name == "gzip" || name == "whole, half-closed"):
					t.Errorf("%s, %s: %v", wire, name, err)
				case err != nil && (!fault.Is(err, fault.Unavailable) || !strings.HasPrefix(want.Text(), got.Text())):
					t.Errorf("%s, %s at %d: %q, %v", wire, name, cut, got.Text(), err)
				}
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("wires %v", seen)
	}
}
