package sandbox

import (
	"fmt"

	"helix/backend/sandbox/qjs"
)

// guest is one instance with the prelude in it, used for one run.
type guest struct {
	in    *qjs.Instance
	enter qjs.Value // the prelude's door, see prelude/core.js
	run   *run      // nil until the run starts
}

// The prelude's names for what the host may ask of it.
const (
	enterSetUp = iota
	enterStart
	enterDeliver
	enterFire
)

func (g *guest) prepare(code []byte) error {
	f, err := g.in.EvalBytecode(code)
	if err != nil {
		return fmt.Errorf("load prelude: %w", err)
	}
	h, err := g.in.HostFunction()
	if err != nil {
		return err
	}
	if g.enter, err = g.in.Call(f, h); err != nil {
		return fmt.Errorf("run prelude: %w", err)
	}
	return nil
}

// call enters the guest through the prelude.
func (g *guest) call(what int, args ...qjs.Value) error {
	_, err := g.in.Call(g.enter, append([]qjs.Value{g.in.Small(what)}, args...)...)
	return err // the result is undefined, which needs no freeing
}

// host answers the prelude's host function.
func (g *guest) host(in *qjs.Instance, args []qjs.Value) qjs.Value {
	if g.run == nil || len(args) == 0 {
		return 0
	}
	return g.run.host(in, int(in.Float(args[0])), args[1:])
}
