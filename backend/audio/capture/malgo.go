//go:build cgo

package capture

import (
	"context"
	"encoding/hex"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/gen2brain/malgo"

	"helix/backend/fault"
)

const periodMs = 10 // requested interval of the callback

// backends are the sound systems in the order in which they are tried. The one without any device,
// which accepts every call and returns silence, is not among them.
var backends = []struct {
	id   malgo.Backend
	name string
}{
	{malgo.BackendWasapi, "WASAPI"}, {malgo.BackendCoreaudio, "Core Audio"}, {malgo.BackendPulseaudio, "PulseAudio"},
	{malgo.BackendAlsa, "ALSA"}, {malgo.BackendJack, "JACK"}, {malgo.BackendSndio, "sndio"}, {malgo.BackendOss, "OSS"},
}

type system struct{}

// System returns the microphones of this computer.
func System() Microphone { return system{} }

// connect connects to the first sound system that runs.
func connect() (*malgo.AllocatedContext, string, error) {
	for _, b := range backends {
		if c, err := malgo.InitContext([]malgo.Backend{b.id}, malgo.ContextConfig{}, nil); err == nil {
			return c, b.name, nil
		}
	}
	return nil, "", fault.Unavailablef("Couldn't find a sound system. Start PulseAudio or PipeWire, or upload a recording.").WithCause(ErrNoMicrophone)
}

func disconnect(c *malgo.AllocatedContext) {
	_ = c.Uninit() // nothing can be done about it
	c.Free()
}

func (system) Devices(context.Context) ([]Device, error) {
	c, backend, err := connect()
	if err != nil {
		return nil, err
	}
	defer disconnect(c)
	infos, err := c.Devices(malgo.Capture)
	if err != nil {
		return nil, fault.Unavailablef("Couldn't list the microphones.").WithCause(err)
	}
	out := []Device{}
	for _, i := range infos {
		d := Device{ID: i.ID.String(), Name: i.Name(), IsDefault: i.IsDefault != 0, Backend: backend}
		if full, err := c.DeviceInfo(malgo.Capture, i.ID, malgo.Shared); err == nil && len(full.Formats) > 0 {
			d.SampleRate, d.Channels = int(full.Formats[0].SampleRate), int(full.Formats[0].Channels)
		}
		out = append(out, d)
	}
	return out, nil
}

type stream struct {
	ctx    *malgo.AllocatedContext
	dev    *malgo.Device
	closed atomic.Bool
}

func (system) Open(id string, rate int, data func([]float32), lost func()) (Stream, error) {
	conf := malgo.DefaultDeviceConfig(malgo.Capture)
	conf.Capture.Format, conf.Capture.Channels = malgo.FormatF32, 1
	conf.SampleRate, conf.PeriodSizeInMilliseconds = uint32(rate), periodMs
	s := &stream{}
	var pin runtime.Pinner
	defer pin.Unpin()
	if id != "" {
		raw, err := hex.DecodeString(id)
		var d malgo.DeviceID
		if err != nil || len(raw) > len(d) {
			return nil, fault.InvalidField("deviceId", fault.CodeInvalid, "There is no such microphone. List them with: helix voice devices")
		}
		copy(d[:], raw)
		pin.Pin(&d)
		conf.Capture.DeviceID = unsafe.Pointer(&d)
	}
	var err error
	if s.ctx, _, err = connect(); err != nil {
		return nil, err
	}
	s.dev, err = malgo.InitDevice(s.ctx.Context, conf, malgo.DeviceCallbacks{
		Data: func(_, in []byte, frames uint32) {
			if frames > 0 {
				data(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(in))), frames))
			}
		},
		Stop: func() {
			if !s.closed.Load() {
				lost()
			}
		},
	})
	if err == nil {
		if err = s.dev.Start(); err != nil {
			s.Close()
			return nil, unusable(err)
		}
		return s, nil
	}
	disconnect(s.ctx)
	return nil, unusable(err)
}

func unusable(err error) error {
	return fault.Unavailablef("Couldn't open the microphone. Check that it is connected and that Helix may use it.").WithCause(err)
}

func (s *stream) Rate() int { return int(s.dev.SampleRate()) }

func (s *stream) Close() {
	if s.closed.Swap(true) {
		return
	}
	_ = s.dev.Stop() // before Uninit, which drops what the device still has
	s.dev.Uninit()
	disconnect(s.ctx)
}
