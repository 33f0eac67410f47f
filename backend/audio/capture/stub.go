//go:build !cgo

package capture

import (
	"context"

	"helix/backend/fault"
)

var errStub = fault.Unavailablef("There is no microphone in this build. Use the desktop app, or upload a recording.").WithCause(ErrNoMicrophone)

type stub struct{}

// System returns the microphones of this computer. This build has none.
func System() Microphone { return stub{} }

func (stub) Devices(context.Context) ([]Device, error) { return nil, errStub }

func (stub) Open(string, int, func([]float32), func()) (Stream, error) { return nil, errStub }
