package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime"
	"time"

	"helix/backend"
	"helix/backend/audio/capture/capturetest"
)

// serve runs a Helix until its input ends. Each line of the input asks for a sample.
func serve(dir string, worker []string) error {
	mic := &capturetest.Mic{}
	ctx := context.Background()
	b, err := backend.Open(ctx, backend.Options{DataDir: dir, Worker: worker, Listen: true, Microphone: mic, Keyring: noKeyring{}, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return err
	}
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- b.Run(run) }()
	go play(run, mic)
	for line := make([]byte, 1); ; {
		if _, err := os.Stdin.Read(line); err != nil {
			cancel()
			stop, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, b.Stop(stop), <-ended)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		if err := json.NewEncoder(os.Stdout).Encode(sample{Goroutines: int64(runtime.NumGoroutine()), HeapKiB: int64(m.HeapAlloc >> 10)}); err != nil { //nolint:gosec // sizes of memory
			return err
		}
	}
}

// play is the sound before the microphone: tones with pauses.
func play(ctx context.Context, mic *capturetest.Mic) {
	const rate = 16_000
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	part := make([]float32, rate/10)
	for n := 0; ; {
		for i := range part {
			part[i] = float32(0.3 * math.Sin(2*math.Pi*440*float64(n)/rate) * math.Abs(math.Sin(2*math.Pi*float64(n)/rate)))
			n++
		}
		mic.Play(part) // if no recording has opened it, nothing happens
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// noKeyring is a computer without a keyring: the key is a file in the data folder.
type noKeyring struct{}

var errNone = errors.New("no keyring here")

func (noKeyring) Get(string, string) (string, error) { return "", errNone }
func (noKeyring) Set(string, string, string) error   { return errNone }
func (noKeyring) Delete(string, string) error        { return errNone }
