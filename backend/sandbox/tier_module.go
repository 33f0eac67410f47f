package sandbox

import (
	"context"

	"helix/backend/sandbox/worker"
)

// wanted describes a child that has loaded the module.
func (m *Module) wanted() *wanted {
	return &wanted{
		key: worker.KindWASM + m.info.SHA256, hello: worker.Hello{Kind: worker.KindWASM},
		code: func() []byte { return encodePrepared(m.prepared) },
	}
}

// workerModule compiles the module that the parent sent, or loads its machine code from the cache,
// and creates the single instance that it needs.
func (e *Engine) workerModule(code []byte) (*Module, error) {
	p, err := decodePrepared(code)
	if err != nil {
		return nil, err
	}
	if err := e.modules.open(e); err != nil {
		return nil, err
	}
	c, err := e.modules.link(context.Background(), e, p)
	if err != nil {
		return nil, err
	}
	in, err := c.take()
	if err != nil {
		return nil, err
	}
	c.release(in, true)
	return &Module{info: p.Info, code: c, prepared: p}, nil
}
