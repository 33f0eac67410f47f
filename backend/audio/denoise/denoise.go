// Package denoise suppresses background noise in speech with RNNoise (Valin 2018), which runs as
// WebAssembly. It owns no tables.
package denoise

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"helix/backend/audio"
	"helix/backend/fault"
)

const (
	// Rate is the sample rate that the suppressor needs, in hertz.
	Rate  = 48000
	frame = 480 // samples at a time
	delay = 960 // of the output: a frame of RNNoise and one of the filter
	// SHA256 identifies the module of the npm package @echogarden/rnnoise-wasm 0.2.0.
	SHA256 = "6b4d53ac61b7301fa150020fe529151700726b38d5954552ec043e22e93dada2"
	module = "artefacts/rnnoise.wasm"
	pages  = 256 // of memory, which the module has from the start
)

//go:embed all:artefacts
var embedded embed.FS

// Suppressor creates denoised sources. The module is compiled for the first one. It is safe for
// concurrent use.
type Suppressor struct {
	files fs.FS

	mu      sync.Mutex
	closed  bool
	runtime wazero.Runtime
	code    wazero.CompiledModule
}

// New returns a Suppressor.
func New() *Suppressor { return &Suppressor{files: embedded} }

// Close frees the compiled module. Sources that still exist fail.
func (s *Suppressor) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.runtime == nil {
		return nil
	}
	r := s.runtime
	s.runtime = nil
	return r.Close(context.Background())
}

// Available returns nil if this build contains the suppressor.
func (s *Suppressor) Available() error {
	if _, err := fs.Stat(s.files, module); err != nil {
		return fault.Unavailablef("This build has no noise suppressor. Run: make engines").WithCause(err)
	}
	return nil
}

// load compiles the module once.
func (s *Suppressor) load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the noise suppressor is closed")
	}
	if s.runtime != nil {
		return nil
	}
	if err := s.Available(); err != nil {
		return err
	}
	code, err := fs.ReadFile(s.files, module)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(code); hex.EncodeToString(sum[:]) != SHA256 {
		return fault.Unavailablef("The noise suppressor of this build is damaged. Run: make engines")
	}
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(pages))
	_, err = r.NewHostModuleBuilder("a").
		NewFunctionBuilder().WithFunc(func(uint32) uint32 { return 0 }).Export("a"). // grow the memory: refused
		NewFunctionBuilder().WithFunc(func(_ context.Context, m api.Module, to, from, n uint32) {
		if b, ok := m.Memory().Read(from, n); ok {
			m.Memory().Write(to, b)
		}
	}).Export("b").
		Instantiate(ctx)
	if err == nil {
		s.code, err = r.CompileModule(ctx, code)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("noise suppressor: %w", err), r.Close(ctx))
	}
	s.runtime = r
	return nil
}

// Source returns src, whose sample rate is Rate, without its noise. It has as many samples, at the
// same times. The caller must close it.
func (s *Suppressor) Source(ctx context.Context, src audio.Source) (*Source, error) {
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runtime == nil {
		return nil, errors.New("the noise suppressor is closed")
	}
	m, err := s.runtime.InstantiateModule(ctx, s.code, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, fmt.Errorf("noise suppressor: %w", err)
	}
	d := &Source{ctx: ctx, src: src, module: m, skip: delay, gains: newFilter()}
	if err := d.prepare(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Source is a denoised source. It is not safe for concurrent use.
type Source struct {
	ctx     context.Context
	src     audio.Source
	module  api.Module
	process api.Function
	state   uint64
	in, out uint64 // addresses of a frame

	pcm      [frame]float32
	clean    []float32 // denoised, not read yet
	buf      [frame]float32
	gains    *filter
	skip     int   // samples of the delay that are still to be dropped
	have     int64 // samples read
	returned int64
	err      error // of src
}

// prepare initializes the module. The names of its functions were shortened when it was built.
func (d *Source) prepare() error {
	call := func(name string, args ...uint64) (v uint64, err error) {
		f := d.module.ExportedFunction(name)
		if f == nil {
			return 0, fmt.Errorf("noise suppressor: no function %q", name)
		}
		out, err := f.Call(d.ctx, args...)
		if len(out) > 0 {
			v = out[0]
		}
		return v, err
	}
	_, err := call("d") // constructors
	if err == nil {
		d.state, err = call("h", 0) // create
	}
	if err == nil {
		d.in, err = call("l", 4*frame) // malloc
	}
	if err == nil {
		d.out, err = call("l", 4*frame)
	}
	if err != nil {
		return fmt.Errorf("start the noise suppressor: %w", err)
	}
	if d.process = d.module.ExportedFunction("k"); d.process == nil || d.state == 0 || d.in == 0 || d.out == 0 {
		return errors.New("start the noise suppressor: out of memory")
	}
	return nil
}

// Close frees the source. It does not close the source below.
func (d *Source) Close() error { return d.module.Close(context.Background()) }

// Read implements audio.Source.
func (d *Source) Read(p []float32) (int, error) {
	for len(d.clean) == 0 {
		if d.err != nil && d.returned == d.have {
			return 0, d.err
		}
		if d.err != nil && !errors.Is(d.err, io.EOF) {
			return 0, d.err
		}
		if err := d.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.clean)
	d.clean = d.clean[n:]
	d.returned += int64(n)
	return n, nil
}

// next denoises a frame. The last one is filled with silence, and two more follow because of the
// delay.
func (d *Source) next() error {
	n := 0
	for n < frame && d.err == nil {
		var k int
		k, d.err = d.src.Read(d.pcm[n:])
		n += k
	}
	d.have += int64(n)
	clear(d.pcm[n:])
	if err := d.ctx.Err(); err != nil {
		return err
	}
	mem := d.module.Memory()
	b, ok := mem.Read(uint32(d.in), 4*frame) //nolint:gosec // an address of 32 bits
	if !ok {
		return errors.New("noise suppressor: no memory")
	}
	for i, v := range d.pcm {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v*math.MaxInt16))
	}
	if _, err := d.process.Call(d.ctx, d.state, d.out, d.in); err != nil {
		return fmt.Errorf("noise suppressor: %w", err)
	}
	if b, ok = mem.Read(uint32(d.out), 4*frame); !ok { //nolint:gosec // an address of 32 bits
		return errors.New("noise suppressor: no memory")
	}
	for i := range d.buf {
		d.buf[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])) / math.MaxInt16
	}
	d.gains.apply(&d.pcm, &d.buf)
	if d.skip > 0 {
		d.skip -= frame
		return nil
	}
	d.clean = d.buf[:min(frame, d.have-d.returned)]
	return nil
}
