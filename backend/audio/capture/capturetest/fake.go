// Package capturetest provides a microphone for tests, which records what the test plays. Only tests
// may import it.
package capturetest

import (
	"context"
	"sync"

	"helix/backend/audio/capture"
)

// Mic is a microphone without hardware. The zero value has one device with 16 kHz.
type Mic struct {
	mu    sync.Mutex
	data  func([]float32)
	lost  func()
	Fail  error  // returned by Open
	Gone  string // an id that Open refuses
	Opens []string
}

// Devices implements capture.Microphone.
func (m *Mic) Devices(context.Context) ([]capture.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Fail != nil {
		return nil, m.Fail
	}
	return []capture.Device{{ID: "01", Name: "Test microphone", IsDefault: true, SampleRate: 16000, Channels: 1, Backend: "test"}}, nil
}

// Open implements capture.Microphone.
func (m *Mic) Open(id string, rate int, data func([]float32), lost func()) (capture.Stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Opens = append(m.Opens, id)
	if m.Fail != nil {
		return nil, m.Fail
	}
	if id != "" && id == m.Gone {
		return nil, capture.ErrNoMicrophone
	}
	m.data, m.lost = data, lost
	return &stream{m}, nil
}

// Play passes samples to the open device. It returns false if none is open.
func (m *Mic) Play(p []float32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil {
		return false
	}
	m.data(p)
	return true
}

// Unplug stops the device as if it had been removed. Opening fails with fail; nil: another device takes over.
func (m *Mic) Unplug(fail error) {
	m.mu.Lock()
	lost := m.lost
	m.data, m.lost, m.Fail = nil, nil, fail
	m.mu.Unlock()
	lost()
}

type stream struct{ m *Mic }

func (stream) Rate() int { return 16000 }

func (s *stream) Close() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.data, s.m.lost = nil, nil
}
