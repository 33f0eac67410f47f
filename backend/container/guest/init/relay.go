//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"helix/backend/container/guest"
)

// relay passes connections to the proxy's port of the container on to Helix. It is started once.
func (i *initProcess) relay() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.relaying {
		return nil
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: guest.ProxyPort, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = syscall.Listen(fd, 64)
	}
	if err != nil {
		syscall.Close(fd) //nolint:errcheck // nothing listens
		return err
	}
	i.relaying = true
	go i.accept(fd)
	return nil
}

func (i *initProcess) accept(fd int) {
	for id := uint32(guest.DialStreams); ; id++ {
		conn, _, err := syscall.Accept4(fd, syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK)
		if err != nil {
			if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ECONNABORTED) {
				continue
			}
			return
		}
		f := os.NewFile(uintptr(conn), "connection")
		s, err := i.conn.Open(id)
		if err == nil {
			err = i.conn.Send(&guest.Message{Type: guest.TypeDial, ID: id})
		}
		if err != nil { // too many at once, or Helix is gone
			f.Close()
			continue
		}
		go carry(f, s, conn)
	}
}

// relayBuffer is how much of a download is passed on at once.
const relayBuffer = 256 << 10

// carry copies both directions until both have ended.
func carry(f *os.File, s *guest.Stream, fd int) {
	var both sync.WaitGroup
	both.Go(func() {
		io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{f}, make([]byte, 64<<10)) //nolint:errcheck // either side has closed it
		s.CloseWrite()                                                                      //nolint:errcheck // Helix is gone then
	})
	both.Go(func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{f}, s, make([]byte, relayBuffer))
		how := syscall.SHUT_WR
		if err != nil {
			how = syscall.SHUT_RDWR
		}
		syscall.Shutdown(fd, how) //nolint:errcheck // it is closed then
	})
	both.Wait()
	f.Close()
	s.Close() //nolint:errcheck // Helix is gone then
}
