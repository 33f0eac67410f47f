package container

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/container/guest"
	"helix/backend/fault"
)

// box is one container from its creation to its removal, with the connection to its init process.
type box struct {
	e       *Engine
	c       *client
	body    createBody
	run     uuid.UUID    // in its name and labels: that of the run it was created for
	phase   func(string) // nil: nothing is called
	live    *Running
	id      string // of the container; its name before it is known; "": there is none
	phases  Phases
	dir     string            // of the socket
	accepts bool              // the init process connects to the socket
	socket  *net.UnixListener // nil: none was made
	report  *guest.Report
	conn    *guest.Conn
	closed  chan struct{} // the connection has ended
	hello   chan *guest.Report
	dialed  func(*guest.Stream) // a program connects to the proxy; nil: it is refused
	said    *window             // what the init process wrote to standard error
	working sync.WaitGroup

	mu    sync.Mutex
	exits map[uint32]chan *guest.Exit
}

// enter records the phase that begins.
func (b *box) enter(phase string) {
	b.e.mu.Lock()
	b.live.Phase, b.live.ContainerID = phase, b.id
	b.e.mu.Unlock()
	if b.phase != nil {
		b.phase(phase)
	}
}

// open creates and starts the container, and checks what its init process reports.
func (b *box) open(ctx context.Context, runtime string) error {
	b.body.HostConfig.Runtime = runtime
	b.enter(PhaseCreate)
	adopted := b.adopt()
	err := b.begin(ctx)
	if adopted && err != nil && ctx.Err() == nil { // somebody else removed it
		b.remove()
		err = b.begin(ctx)
	}
	if refusal := runtimeRefusal(err); refusal != "" && runtime != "runc" {
		// crun refuses hybrid control groups, which runc supports.
		b.remove()
		b.body.HostConfig.Runtime = "runc"
		if err = b.begin(ctx); err == nil {
			b.e.mu.Lock()
			b.e.runtime = "runc"
			b.e.mu.Unlock()
		} else if ctx.Err() == nil {
			return unavailable(Reason{RuntimeRefused, "The engine can't start containers: " + refusal, "Install runc or correct the engine."}).WithCause(err)
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return fault.New(fault.Canceled, "The run was canceled before it started.").WithCause(err)
		}
		return refusedByEngine(err)
	}
	return nil
}

// begin creates the container unless it is there, connects to it, starts it and waits for the report.
func (b *box) begin(ctx context.Context) error {
	creating := time.Now()
	if b.id == "" {
		if err := b.create(ctx); err != nil {
			return err
		}
	}
	b.phases.Create = time.Since(creating)
	b.enter(PhaseStart)
	starting := time.Now()
	defer func() { b.phases.Start = time.Since(starting) }()
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	if !b.accepts {
		rw, err := b.attach(ctx)
		if err != nil {
			return err
		}
		b.serve(rw)
	}
	if err := b.c.call(ctx, "POST", "/containers/"+b.id+"/start", nil, nil, nil); err != nil {
		return err
	}
	if b.accepts {
		rw, err := b.accept(ctx)
		if err != nil {
			return b.died(ctx, err)
		}
		b.serve(rw)
	}
	select {
	case b.report = <-b.hello:
	case <-b.closed:
		return b.died(ctx, errors.New("the init process ended"))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if field := mismatch(b.report, &b.body); field != "" {
		return errMismatch(field)
	}
	b.enter(PhaseReady)
	return nil
}

// died explains why the init process did not report.
func (b *box) died(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return unavailable(Reason{InitMissing, "The container's init process didn't start: " + clip(cmp.Or(string(b.said.bytes()), err.Error()), 300), "Check the engine with: helix container doctor"}).WithCause(err)
}

// create creates the container.
func (b *box) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	program, err := b.e.initFile()
	if err != nil {
		return err
	}
	b.e.hold(b.run)
	body := &b.body
	body.Labels[labelRun] = b.run.String()
	body.HostConfig.Mounts = append([]mount{bind(program, guest.InitPath, true)}, b.extra()...)
	body.Entrypoint, body.Cmd = []string{guest.InitPath}, []string{guest.AttachArg}
	b.exits, b.hello, b.closed, b.said = map[uint32]chan *guest.Exit{}, make(chan *guest.Report, 1), make(chan struct{}), &window{tail: 4 << 10}
	b.accepts = b.e.transport(b.c) == guest.SocketArg
	if b.accepts {
		if err := b.listen(); err != nil {
			return err
		}
		body.Cmd = []string{guest.SocketArg}
		body.HostConfig.Mounts = append(body.HostConfig.Mounts, bind(b.socket.Addr().String(), guest.SocketPath, false))
	}
	body.OpenStdin, body.StdinOnce = !b.accepts, !b.accepts
	body.AttachStdin, body.AttachStdout, body.AttachStderr = !b.accepts, !b.accepts, !b.accepts
	var made struct {
		ID string `json:"Id"`
	}
	// The name is known before the answer, so that a container whose creation was not answered is removed too. A
	// canceled creation is awaited for some time: an engine continues with it, perhaps after the removal.
	b.id = containerName(b.run.String())
	creation, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endTime, end) })()
	if err = b.c.call(creation, "POST", "/containers/create", url.Values{"name": {b.id}}, body, &made); err != nil {
		var api *apiError
		if errors.As(err, &api) && api.status == 404 {
			return unavailable(Reason{ImageMissing, "The image isn't on this computer.", "Pull or import it again."}).WithCause(err)
		}
		return err
	}
	b.id = made.ID
	var x inspection
	if err = b.c.call(ctx, "GET", "/containers/"+b.id+"/json", nil, nil, &x); err != nil {
		return err
	}
	if field := x.mismatch(body); field != "" {
		return errMismatch(field)
	}
	return nil
}

// extra returns the mounts of the body without those of the init process.
func (b *box) extra() (list []mount) {
	for _, m := range b.body.HostConfig.Mounts {
		if m.Target != guest.InitPath && m.Target != guest.SocketPath {
			list = append(list, m)
		}
	}
	return list
}

// listen creates the socket of this container. Only the socket is mounted, so only its own permissions count
// inside, and only those of its folder outside.
func (b *box) listen() error {
	dir, err := b.e.socketFolder()
	if err != nil {
		return err
	}
	b.dir = dir
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		return err
	}
	b.socket = l
	return os.Chmod(l.Addr().String(), 0o666) //nolint:gosec // its folder is private
}

// accept waits for the init process, the first to connect: no other program runs yet.
func (b *box) accept(ctx context.Context) (io.ReadWriteCloser, error) {
	l := b.socket
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	// An init process that cannot run never connects.
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	id := b.id
	b.working.Go(func() {
		if b.c.call(wait, "POST", "/containers/"+id+"/wait", nil, nil, nil) == nil {
			l.Close()
		}
	})
	conn, err := l.Accept()
	cancel()
	return conn, err
}

// attached is the standard input and output of an init process as a connection.
type attached struct {
	*stream
	left   int64   // of the current frame of the engine
	errors *window // standard error
}

func (b *box) attach(ctx context.Context) (io.ReadWriteCloser, error) {
	s, err := b.c.attach(ctx, b.id)
	if err != nil {
		return nil, err
	}
	return &attached{stream: s, errors: b.said}, nil
}

func (a *attached) Write(p []byte) (int, error) { return a.conn.Write(p) }
func (a *attached) Close() error                { return a.conn.Close() }

// Read takes standard output out of the frames of the engine: one byte for the stream, three zeros, the length
// and the data.
func (a *attached) Read(p []byte) (int, error) {
	for a.left == 0 {
		var header [8]byte
		if _, err := io.ReadFull(a.r, header[:]); err != nil {
			return 0, err
		}
		n := int64(binary.BigEndian.Uint32(header[4:]))
		switch header[0] {
		case 0, 1:
			a.left = n
		case 2:
			if _, err := io.CopyN(a.errors, a.r, n); err != nil {
				return 0, err
			}
		default:
			return 0, errors.New("the engine sent an unknown stream")
		}
	}
	n, err := a.r.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, err
}

// serve receives from the init process until the connection ends.
func (b *box) serve(rw io.ReadWriteCloser) {
	if _, ok := rw.(*attached); !ok {
		rw = struct {
			io.Reader
			io.WriteCloser
		}{bufio.NewReaderSize(rw, 64<<10), rw}
	}
	conn := guest.NewConn(rw)
	b.conn = conn
	closed := b.closed
	b.working.Go(func() {
		defer close(closed)
		conn.Serve(b.handle) //nolint:errcheck // whoever waits learns of its end
	})
}

func (b *box) handle(m *guest.Message) error {
	switch m.Type {
	case guest.TypeHello:
		if m.Report == nil {
			return errors.New("a report without content")
		}
		select {
		case b.hello <- m.Report:
		default:
			return errors.New("a second report")
		}
	case guest.TypeExit:
		b.mu.Lock()
		exit := b.exits[m.ID]
		delete(b.exits, m.ID)
		b.mu.Unlock()
		if exit != nil && m.Exit != nil {
			exit <- m.Exit
		}
	case guest.TypeDial:
		if b.dialed == nil || m.ID < guest.DialStreams {
			return errors.New("a connection that was not asked for")
		}
		s, err := b.conn.Open(m.ID)
		if err != nil {
			return err
		}
		b.working.Go(func() { defer s.Close(); b.dialed(s) })
	}
	return nil
}

// process is a program that was asked for.
type process struct {
	id                    uint32
	stdin, stdout, stderr *guest.Stream
	exit                  chan *guest.Exit
}

// start asks the init process for a program.
func (b *box) start(id uint32, s *guest.Start) (*process, error) {
	p := &process{id: id, exit: make(chan *guest.Exit, 1)}
	var err error
	for _, x := range []struct {
		to *(*guest.Stream)
		id uint32
	}{{&p.stdin, guest.Stdin(id)}, {&p.stdout, guest.Stdout(id)}, {&p.stderr, guest.Stderr(id)}} {
		if *x.to, err = b.conn.Open(x.id); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	b.exits[id] = p.exit
	b.mu.Unlock()
	return p, b.conn.Send(&guest.Message{Type: guest.TypeStart, ID: id, Start: s})
}

// feed writes the input of a program, which need not read it.
func (p *process) feed(input []byte) {
	if _, err := p.stdin.Write(input); err == nil {
		p.stdin.CloseWrite() //nolint:errcheck // the program has ended then
	}
}

// end waits for the end of a program; nil: the connection ended first.
func (p *process) end(closed <-chan struct{}) *guest.Exit {
	select {
	case exit := <-p.exit:
		return exit
	case <-closed:
	}
	select { // it may have come just before
	case exit := <-p.exit:
		return exit
	default:
		return nil
	}
}

// close closes the streams of a program that has ended.
func (p *process) close() {
	for _, s := range []*guest.Stream{p.stdin, p.stdout, p.stderr} {
		s.Close() //nolint:errcheck // the connection has ended then
	}
}

// kill ends the container. An error means that the engine did not answer.
func (b *box) kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), apiTime)
	defer cancel()
	err := b.c.call(ctx, "POST", "/containers/"+b.id+"/kill", url.Values{"signal": {"KILL"}}, nil, nil)
	var api *apiError
	if err != nil && !errors.As(err, &api) { // otherwise it has ended already
		b.e.log.Warn("kill a container", "run", b.run, "err", err)
		return err
	}
	return nil
}

// remove ends and removes the container. If that fails the reaper does.
func (b *box) remove() {
	began := time.Now()
	if b.id != "" {
		ctx, cancel := context.WithTimeout(context.Background(), removeTime)
		defer cancel()
		// The connection is open until then: a container that ends by itself at that moment confuses Podman.
		if err := b.c.remove(ctx, b.id); err != nil {
			b.e.log.Warn("remove a container", "run", b.run, "err", err)
		}
		b.id = ""
	}
	b.e.release(b.run)
	if b.conn != nil {
		b.conn.Close() //nolint:errcheck // it has ended then
	}
	b.working.Wait()
	if b.socket != nil {
		b.socket.Close() //nolint:errcheck // unless the init process has connected
		b.socket = nil
	}
	if b.dir != "" {
		os.RemoveAll(b.dir) //nolint:errcheck // the next start removes it
		b.dir = ""
	}
	b.phases.Remove = time.Since(began)
}
