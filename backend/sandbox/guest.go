package sandbox

import "helix/backend/sandbox/qjs"

// guest is an instance with the prelude in it. It serves one run at a time.
type guest struct {
	in  *qjs.Instance
	run *run // nil between runs
}

// The prelude's names for what the host may ask of it.
const (
	enterSetUp = iota
	enterStart
	enterDeliver
	enterFire
	enterDone
	enterFail
	enterModule
)

// host answers the prelude's host function.
func (g *guest) host(in *qjs.Instance, args []qjs.Value) qjs.Value {
	if g.run == nil || len(args) == 0 {
		return 0
	}
	return g.run.host(in, int(in.Float(args[0])), args[1:])
}
