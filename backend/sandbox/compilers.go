package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"helix/backend/sandbox/worker"
)

const (
	// compilerHeap is what the compiler may allocate. Together with the rest of the child it stays
	// below compilerMemory, which the operating system enforces.
	compilerHeap   = 128 << 20
	compilerMemory = 192 << 20
	// compilerCPU is the CPU time limit of one compilation. compilerWall also applies on systems
	// that do not report CPU time, and allows for a busy machine.
	compilerCPU  = 5 * time.Second
	compilerWall = 15 * time.Second
	// outOfTime is the exit code of a child that reached its time limit.
	outOfTime = 3
	// maxCompilerBytes is the amount of output after which a child is replaced: a reader of frames
	// takes twice as much.
	maxCompilerBytes = 128 << 20
	// compilerLook is the interval at which a compiling child checks its usage.
	compilerLook = 5 * time.Millisecond
)

// compilers owns the child process that compiles sources which could use up all memory. There is
// only one child at a time, so that such sources together use no more memory than one. It compiles
// them one by one and is replaced if one of them ends it.
type compilers struct {
	c     *children
	limit time.Duration  // CPU time of one compilation
	slot  chan *compiler // holds the child, or nil if none is running
	last  time.Time      // time of last use; guarded by slot
}

type compiler struct {
	p    *worker.Process
	sent int // bytes of output so far
}

func newCompilers(c *children) *compilers {
	s := &compilers{c: c, limit: compilerCPU, slot: make(chan *compiler, 1)}
	s.slot <- nil
	return s
}

func (s *compilers) transform(ctx context.Context, t Transform) (Transformed, *Error) {
	var c *compiler
	select {
	case c = <-s.slot:
	case <-ctx.Done():
		return Transformed{}, contextError(ctx)
	}
	defer func() {
		s.last = time.Now()
		s.slot <- c
	}()
	if c == nil {
		p, err := s.start(ctx)
		if err != nil {
			return Transformed{}, err
		}
		c = &compiler{p: p}
	}
	r, done, err := c.transform(ctx, t, s.limit)
	if !done || c.sent > maxCompilerBytes {
		c.p.Release(0)
		c = nil
	}
	return r, err
}

// start starts a child. It runs no code of a tool, so it may be less isolated than a run.
func (s *compilers) start(ctx context.Context) (*worker.Process, *Error) {
	if err := s.c.probe(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	p, _, err := s.c.launch(ctx, &wanted{hello: worker.Hello{Kind: worker.KindCompile}}, compilerMemory)
	var own *Error
	if err == nil || errors.As(err, &own) {
		return p, own
	}
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	return nil, &Error{Class: ClassUnavailable, Message: "The process that compiles tools could not be started.", Err: err}
}

// transform sends one source to the child. done is false if the child cannot be used again.
func (c *compiler) transform(ctx context.Context, t Transform, limit time.Duration) (r Transformed, done bool, _ *Error) {
	limited, cancel := context.WithTimeout(ctx, compilerWall)
	defer cancel()
	stop := context.AfterFunc(limited, c.p.Kill)
	defer stop()
	job := worker.Compile{TypeScript: t.TypeScript, KeepImports: t.KeepImports, Forms: t.Forms, CPU: limit}
	err := c.p.In.Write(worker.ToChild{Compile: &job}, []byte(t.Text))
	var f worker.FromChild
	var body []byte
	if err == nil {
		f, body, err = c.p.Out.ReadFromChild()
	}
	switch {
	case err == nil && f.Compiled == nil:
		err = errProtocol
	case err == nil && stop():
		c.sent += len(body)
		if f.Compiled.TooLarge {
			return r, true, failf(ClassCompile, "The source becomes larger than %s when it is compiled. Make it smaller.", size(maxTransformed))
		}
		r.Code, r.Map = body[:f.Compiled.CodeSize], body[f.Compiled.CodeSize:]
		r.Errors, r.Warnings = f.Compiled.Errors, f.Compiled.Warnings
		if x := f.Compiled.Forms; x != nil {
			r.forms = &forms{byDefault: x.Default, execute: x.Execute, main: x.Main, exports: x.Exports, imported: x.Imported, imports: x.Import}
		}
		return r, true, nil
	case ctx.Err() != nil:
		return r, false, contextError(ctx)
	}
	c.p.Release(0)
	if limited.Err() != nil || c.p.ExitCode() == outOfTime {
		return r, false, failf(ClassCompile, "The source takes too long to compile. Make it smaller or simpler.")
	}
	return r, false, &Error{
		Class: ClassCompile, Message: fmt.Sprintf("The source needs more than %s of memory to compile. Make it smaller or simpler.", size(compilerHeap)),
		Err: errors.Join(err, errors.New(c.p.Said())),
	}
}

// trim ends a child that has not been used for a while.
func (s *compilers) trim(idle time.Duration) {
	select {
	case c := <-s.slot:
		if c != nil && time.Since(s.last) >= idle {
			c.p.Release(0)
			c = nil
		}
		s.slot <- c
	default: // it is busy
	}
}

// close ends the child. No compilation may be running or follow.
func (s *compilers) close() {
	if c := <-s.slot; c != nil {
		c.p.Release(0)
	}
}

// serveCompiler is the main loop of the child: it compiles what it receives until its input ends.
func serveCompiler(in *worker.Reader, out *worker.Writer) error {
	debug.SetGCPercent(100)
	debug.SetMemoryLimit(compilerHeap / 2)
	lock, err := worker.LockDown(worker.LockOptions{MemoryBytes: compilerHeap, OwnBytes: compilerMemory - compilerHeap})
	if err != nil {
		return err
	}
	if err := out.Write(worker.FromChild{Ready: &worker.Ready{Lock: lock, CPU: worker.SelfCPU()}}); err != nil {
		return err
	}
	for {
		f, body, err := in.ReadToChild()
		if err != nil || f.Compile == nil {
			return err
		}
		stop := make(chan struct{})
		go watchCompiler(f.Compile.CPU, stop)
		t := Transform{Text: string(body), TypeScript: f.Compile.TypeScript, KeepImports: f.Compile.KeepImports, Forms: f.Compile.Forms}
		r := runTransform(t, maxTransformed)
		close(stop)
		answer := worker.Compiled{TooLarge: r == nil}
		if r == nil {
			r = &Transformed{}
		}
		answer.CodeSize, answer.Errors, answer.Warnings = len(r.Code), r.Errors, r.Warnings
		if x := r.forms; x != nil {
			answer.Forms = &worker.Forms{Default: x.byDefault, Execute: x.execute, Main: x.main, Exports: x.exports, Imported: x.imported, Import: clip(x.imports, maxMessageText)}
		}
		if err := out.Write(worker.FromChild{Compiled: &answer}, r.Code, r.Map); err != nil {
			return err
		}
	}
}

// watchCompiler ends the child if it uses too much memory or time. This works even where the
// operating system has no limit for it, and if the parent is gone.
func watchCompiler(limit time.Duration, stop <-chan struct{}) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	begun, end := worker.SelfCPU(), time.After(2*compilerWall)
	tick := time.NewTicker(compilerLook) // never stopped: this goroutine ends with the process or with stop
	for {
		select {
		case <-stop:
			return
		case <-end:
			os.Exit(outOfTime)
		case <-tick.C:
			if worker.SelfCPU()-begun > limit {
				os.Exit(outOfTime)
			}
			metrics.Read(sample)
			if sample[0].Value.Uint64()-sample[1].Value.Uint64() > compilerHeap {
				fmt.Fprintln(os.Stderr, "out of memory")
				os.Exit(1)
			}
		}
	}
}
