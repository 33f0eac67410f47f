package qjs

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"helix/backend/sandbox/linear"
)

// Layout is where things are in a prepared world. It is determined when the engine artefacts are
// built and is stored in their manifest.
type Layout struct {
	Pages        uint32   `json:"pages"` // of 64 KiB, the module's minimum
	StackPointer uint32   `json:"stackPointer"`
	Random       []uint32 `json:"random"`     // words of eight bytes that determine Math.random
	TimeOrigin   []uint32 `json:"timeOrigin"` // doubles: where performance.now counts from, in ms
	Scratch      uint32   `json:"scratch"`    // scratchSize bytes for data that the host passes in
	Handles      Handles  `json:"handles"`
	Tags         Tags     `json:"tags"`
	StackLimit   int64    `json:"stackLimit"`
	MemoryLimit  int64    `json:"memoryLimit"`
}

// Handles are values that a prepared world keeps for the host.
type Handles struct {
	Undefined Value    `json:"undefined"`
	Small     [7]Value `json:"small"` // the numbers 0 to 6
	Enter     Value    `json:"enter"` // the function returned by the prelude; 0 without one
}

// Template is a prepared world. New instances start as copies of it, and used ones are reset to it.
// It is safe for use by many goroutines. Close it after its copies.
type Template struct {
	Layout
	image *linear.Image
}

// NewTemplate returns a Template of a snapshot made by Build and the layout that belongs to it. The
// snapshot must not change afterwards.
func NewTemplate(snapshot []byte, l Layout) (*Template, error) {
	im, err := readImage(snapshot)
	if err != nil {
		return nil, err
	}
	t := &Template{Layout: l, image: im}
	if uint64(l.Pages)<<16 != uint64(im.Size()) || !t.inside() {
		im.Close()
		return nil, errors.New("the snapshot does not fit its layout")
	}
	return t, nil
}

// inside reports whether every position in the layout is inside the memory.
func (t *Template) inside() bool {
	size := uint32(t.image.Size())
	in := func(at, n uint32) bool { return at != 0 && n <= size && at <= size-n }
	ok := in(t.Scratch, scratchSize) && in(t.StackPointer, 0) && in(uint32(t.Handles.Undefined), 8) && len(t.Random) > 0
	for _, at := range append(append([]uint32{}, t.Random...), t.TimeOrigin...) {
		ok = ok && in(at, 8)
	}
	for _, v := range t.Handles.Small {
		ok = ok && in(uint32(v), 8)
	}
	return ok && (t.Handles.Enter == 0 || in(uint32(t.Handles.Enter), 8))
}

// Shared reports whether copies share the template's pages until they write to them.
func (t *Template) Shared() bool { return t.image.Shared() }

// Close frees the template. Close its copies first.
func (t *Template) Close() { t.image.Close() }

// Copy returns an instance that is a copy of t, which must belong to the VM's module. Seed it
// before the first use.
func (v *VM) Copy(ctx context.Context, t *Template, o Options) (*Instance, error) {
	in, err := v.instance(ctx, t, o)
	if err != nil {
		return nil, err
	}
	if !in.Intact() {
		in.Close()
		return nil, errNoCopy
	}
	in.rewind()
	return in, nil
}

// Reset restores a used instance to its initial state: its whole memory, its globals and its limits
// are those of the template again, and nothing of the previous run is left, whether that ended
// normally or was stopped. The tables and segments of the engine never change, since it has no
// instructions that change them. Seed the instance before the next use. An instance that has grown,
// is closed, or for which Reset failed can only be closed.
func (in *Instance) Reset() error {
	if !in.Intact() {
		return errNoCopy
	}
	if err := in.linear.Restore(); err != nil {
		in.lost = true
		return err
	}
	in.rewind()
	return nil
}

// Intact reports whether Reset can work: the instance has not grown and is not closed.
func (in *Instance) Intact() bool {
	return !in.lost && in.mod != nil && !in.mod.IsClosed() && uint64(in.t.image.Size()) == in.linear.Size()
}

// rewind resets the state that is not in the memory.
func (in *Instance) rewind() {
	in.sp.Set(uint64(in.t.StackPointer))
	in.gauge.Arm(0)
	in.stack, in.memory, in.top, in.depth = in.t.StackLimit, in.t.MemoryLimit, 0, 0
	in.linear.Limit = uint64(in.memory)
	in.stop.Store(false)
	in.broken = nil
	if in.resets++; in.resets%renewCalls == 0 {
		in.fns = [fnCount]entry{}
	}
	in.With(context.Background())
}

// renewCalls is the number of resets after which the native stacks are released; they grow with
// deep guest code and never shrink.
const renewCalls = 128

// Seed seeds Math.random, and makes now the origin of performance.now.
func (in *Instance) Seed(seed [8]byte) {
	in.since = time.Now()
	in.base = in.o.Clock()
	word := binary.LittleEndian.Uint64(seed[:]) | 1 // zero would stay zero
	for _, at := range in.t.Random {
		in.mem.WriteUint64Le(at, word)
	}
	origin := math.Float64bits(float64(in.base) / 1e6)
	for _, at := range in.t.TimeOrigin {
		in.mem.WriteUint64Le(at, origin)
	}
}

// errNoCopy is the error of Reset for an instance that is not Intact.
var errNoCopy = errors.New("the instance is no copy of its template any more")

// PrivateBytes returns the size in bytes of the instance's private memory, if it shares the rest.
func (in *Instance) PrivateBytes() (int, error) {
	if n, ok := in.linear.PrivateBytes(); ok {
		return n, nil
	}
	return 0, errors.ErrUnsupported
}
