package safehttp

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// stubDNS answers look-ups from a table, over UDP on this machine.
type stubDNS struct {
	conn net.PacketConn
	mu   sync.Mutex
	ips  map[string][]netip.Addr
	turn map[string]int // for names that change: which address comes next
}

func newStubDNS(t *testing.T) *stubDNS {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &stubDNS{conn: conn, ips: map[string][]netip.Addr{}, turn: map[string]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.serve()
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return d
}

func (d *stubDNS) set(name string, ips ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ips[name] = nil
	for _, ip := range ips {
		d.ips[name] = append(d.ips[name], netip.MustParseAddr(ip))
	}
}

// rotate gives one address of the list in each answer.
func (d *stubDNS) rotate(name string, ips ...string) {
	d.set(name, ips...)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn[name] = 0
}

func (d *stubDNS) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var n net.Dialer
		return n.DialContext(ctx, "udp", d.conn.LocalAddr().String())
	}}
}

func (d *stubDNS) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var q dnsmessage.Message
		if q.Unpack(buf[:n]) != nil || len(q.Questions) != 1 {
			continue
		}
		if b, err := d.answer(q); err == nil {
			_, _ = d.conn.WriteTo(b, from)
		}
	}
}

func (d *stubDNS) answer(q dnsmessage.Message) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ask := q.Questions[0]
	name := ask.Name.String()
	ips := d.ips[name]
	if i, ok := d.turn[name]; ok && ask.Type == dnsmessage.TypeA && len(ips) > 0 {
		d.turn[name] = i + 1
		ips = ips[i%len(ips) : i%len(ips)+1]
	}
	q.Response, q.RecursionAvailable = true, true
	for _, ip := range ips {
		h := dnsmessage.ResourceHeader{Name: ask.Name, Class: ask.Class, Type: ask.Type}
		switch {
		case ip.Is4() && ask.Type == dnsmessage.TypeA:
			q.Answers = append(q.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: ip.As4()}})
		case ip.Is6() && ask.Type == dnsmessage.TypeAAAA:
			q.Answers = append(q.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	return q.Pack()
}
