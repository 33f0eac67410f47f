// Package capture records from a microphone. Samples pass from the audio thread through a lock-free
// ring to a writer, which appends them to a file every 50 ms, so that a crash loses less than 100 ms.
// It owns no tables. Builds without cgo have no microphone.
package capture

import (
	"context"
	"errors"
)

// ErrNoMicrophone means that there is no device to record from.
var ErrNoMicrophone = errors.New("no microphone")

// Device is a microphone.
type Device struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	IsDefault  bool   `json:"isDefault"`
	SampleRate int    `json:"sampleRate,omitempty"` // in hertz; 0: unknown or any
	Channels   int    `json:"channels,omitempty"`
	Backend    string `json:"backend"` // the sound system, such as PulseAudio
}

// Microphone opens devices. It is safe for concurrent use.
type Microphone interface {
	Devices(ctx context.Context) ([]Device, error)
	// Open starts to capture from a device; an empty id is the default one. Rate is the rate of the
	// samples in hertz; 0: that of the device. data gets mono samples, which are valid only during
	// the call, on a thread that must not block. lost is called if the device stops by itself.
	Open(id string, rate int, data func([]float32), lost func()) (Stream, error)
}

// Stream is an open device.
type Stream interface {
	Rate() int
	// Close stops the device. Afterwards no function of the stream is called.
	Close()
}
