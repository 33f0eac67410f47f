// Package safehttptest provides a DNS server for tests of code that sends requests. Only tests
// import it.
package safehttptest

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// DNS answers DNS queries from a table, over UDP on this machine.
type DNS struct {
	conn net.PacketConn
	mu   sync.Mutex
	ips  map[string][]netip.Addr
	turn map[string]int // for names that rotate: the index of the next address
}

// NewDNS returns a server without names; it is stopped at the end of the test.
func NewDNS(t *testing.T) *DNS {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &DNS{conn: conn, ips: map[string][]netip.Addr{}, turn: map[string]int{}}
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

// Set sets the addresses of a name.
func (d *DNS) Set(name string, ips ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ips[name] = nil
	for _, ip := range ips {
		d.ips[name] = append(d.ips[name], netip.MustParseAddr(ip))
	}
}

// Rotate makes each answer contain the next address of the list.
func (d *DNS) Rotate(name string, ips ...string) {
	d.Set(name, ips...)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn[name] = 0
}

// Resolver returns a resolver that queries d.
func (d *DNS) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var n net.Dialer
		return n.DialContext(ctx, "udp", d.conn.LocalAddr().String())
	}}
}

func (d *DNS) serve() {
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

func (d *DNS) answer(q dnsmessage.Message) ([]byte, error) {
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
