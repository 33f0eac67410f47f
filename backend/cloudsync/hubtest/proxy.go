package hubtest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy forwards connections to a server and can break them at any byte.
type Proxy struct {
	l      net.Listener
	target string
	left   atomic.Int64 // bytes until the next break
	broke  atomic.Value // func()
	closed atomic.Bool
	wg     sync.WaitGroup
	mu     sync.Mutex
	open   map[net.Conn]bool
}

// NewProxy starts a proxy in front of the server at port.
func NewProxy(t testing.TB, port int) *Proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, target: fmt.Sprint("127.0.0.1:", port), open: map[net.Conn]bool{}}
	p.left.Store(math.MaxInt64)
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(func() {
		_ = l.Close()
		p.Drop()
		p.wg.Wait()
	})
	return p
}

// Port returns the port of the proxy.
func (p *Proxy) Port() int { return p.l.Addr().(*net.TCPAddr).Port }

// BreakAfter breaks the connection that transfers the n-th byte from now, in either direction, and
// then calls broke, which may be nil.
func (p *Proxy) BreakAfter(n int64, broke func()) {
	if broke == nil {
		broke = func() {}
	}
	p.broke.Store(broke)
	p.left.Store(n)
}

// Heal cancels BreakAfter.
func (p *Proxy) Heal() { p.left.Store(math.MaxInt64) }

// Block closes all connections and refuses new ones, or accepts them again.
func (p *Proxy) Block(on bool) {
	p.closed.Store(on)
	p.Drop()
}

// Drop closes all connections.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		if p.closed.Load() {
			_ = in.Close()
			continue
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.open[in], p.open[out] = true, true
		p.mu.Unlock()
		p.wg.Add(2)
		go p.copy(in, out)
		go p.copy(out, in)
	}
}

func (p *Proxy) copy(from, to net.Conn) {
	defer p.wg.Done()
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		left := p.left.Add(-int64(n))
		if left < 0 {
			if left+int64(n) >= 0 { // only the transfer that crosses the limit breaks
				_, _ = to.Write(b[:left+int64(n)])
				p.broke.Load().(func())()
			}
			err = errors.Join(err, io.ErrClosedPipe)
		} else if n > 0 {
			if _, e := to.Write(b[:n]); e != nil {
				err = e
			}
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			p.mu.Lock()
			delete(p.open, from)
			delete(p.open, to)
			p.mu.Unlock()
			return
		}
	}
}
