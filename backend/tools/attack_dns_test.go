package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"helix/backend/lifecycle"
	"helix/backend/safehttp"
)

// resolver resolves every name to the address that its first label spells, such as a-127-0-0-1 and
// six-0-0-0-0-0-0-0-1. A label that begins with turn resolves to a public address first and then to
// this computer.
func resolver(t *testing.T) *net.Resolver {
	t.Helper()
	c, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { c.Close(); <-done })
	var turns atomic.Int32
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			label, _, _ := strings.Cut(q.Name.String(), ".")
			kind, rest, _ := strings.Cut(label, "-")
			m.Response, m.RecursionAvailable = true, true
			h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}
			switch {
			case kind == "turn" && q.Type == dnsmessage.TypeA:
				ip := [4]byte{127, 0, 0, 1}
				if turns.Add(1)%2 == 1 {
					ip = [4]byte{192, 0, 2, 1}
				}
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: ip}})
			case kind == "a" && q.Type == dnsmessage.TypeA:
				if ip, err := netip.ParseAddr(strings.ReplaceAll(rest, "-", ".")); err == nil {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: ip.As4()}})
				}
			case kind == "six" && q.Type == dnsmessage.TypeAAAA:
				if ip, err := netip.ParseAddr(strings.ReplaceAll(rest, "-", ":")); err == nil {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
				}
			}
			if b, err := m.Pack(); err == nil {
				_, _ = c.WriteTo(b, from) // the client may have gone
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
}

// TestNamesThatResolveInside grants a tool hosts whose names resolve to this computer and to
// private networks: no connection is made to any of them.
func TestNamesThatResolveInside(t *testing.T) {
	t.Parallel()
	hits := make(chan string, 100)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-stopped })
	go func() {
		defer close(stopped)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits <- c.RemoteAddr().String()
			c.Close()
		}
	}()
	dns := resolver(t)
	b := setup(t, func(o *Options) { o.HTTP = func(h *safehttp.Options) { h.Resolver = dns } })
	port := l.Addr().(*net.TCPAddr).Port
	var hosts, capabilities []string
	for _, label := range []string{"a-127-0-0-1", "a-127-1-2-3", "a-0-0-0-0", "a-10-0-0-1", "a-192-168-1-1", "a-172-16-0-1", "a-169-254-169-254", "a-100-64-0-1", "a-168-63-129-16", "a-224-0-0-1", "a-255-255-255-255",
		"six-0-0-0-0-0-0-0-1", "six-0-0-0-0-0-0-0-0", "six-0-0-0-0-0-ffff-7f00-1", "six-fd00-0-0-0-0-0-0-1", "six-fe80-0-0-0-0-0-0-1", "six-64-ff9b-0-0-0-0-7f00-1", "six-2002-7f00-1-0-0-0-0-1", "turn-1"} {
		host := fmt.Sprintf("%s.rebind.example.com:%d", label, port)
		hosts, capabilities = append(hosts, host), append(capabilities, "network:https("+host+")")
	}
	tool := b.create(t, CreateParams{Capabilities: capabilities, Code: `
		const out = {};
		await Promise.all(params.hosts.map(async h => { for (let i = 0; i < 2; i++)
			try { const r = await helix.fetch("https://" + h + "/", {timeoutMs: h.startsWith("turn") ? 1000 : 25000}); out[h] = "got " + r.status } catch (e) { out[h] = e.message } }));
		return out;`})
	params := lifecycle.Text(map[string]any{"hosts": hosts})
	for range 3 {
		if _, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID, Params: params}); err != nil {
			b.allow(t, tool, "always")
		}
	}
	r := b.run(t, tool, string(params))
	var out map[string]string
	if err := json.Unmarshal(r.Output, &out); err != nil || len(out) != len(hosts) {
		t.Fatalf("%s %s", r.Output, r.Error)
	}
	refused := 0
	for h, answer := range out {
		if strings.HasPrefix(answer, "got") {
			t.Errorf("%s: %s", h, answer)
		}
		if strings.Contains(answer, "may not be reached") {
			refused++
		}
	}
	if refused < len(hosts)-1 { // the alternating one may fail at its public address instead
		t.Errorf("only %d were refused for their address: %v", refused, out)
	}
	select {
	case from := <-hits:
		t.Errorf("something connected from %s", from)
	default:
	}
}
