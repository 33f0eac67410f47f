package audio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"helix/backend/fault"
)

const (
	ffmpegTime   = 20 * time.Minute // by the clock; the reader may be slow
	ffmpegCPU    = 120              // seconds
	ffmpegMemory = 512 << 10        // KiB
)

// ffmpeg decodes with the system's ffmpeg, which returns a WAV file. It needs a file to seek in, and
// may open nothing else.
type ffmpeg struct {
	decoder
	cmd    *exec.Cmd
	cancel context.CancelFunc
	out    io.ReadCloser
	file   string
	format string
	closed bool

	left    int64 // frames until the padding of the last AAC frame; negative: unknown
	padding []float32
}

// mostPadding is the largest number of frames that an encoder adds at the end. More than that is sound.
const mostPadding = 2 * 1024

// openFFmpeg starts the program on a copy of r.
func openFFmpeg(r io.Reader, format, program string) (d decoder, err error) {
	path, err := exec.LookPath(program)
	if err != nil {
		if format == "m4a" {
			format = "AAC audio (m4a)"
		} else {
			format = "a CAF file"
		}
		return nil, fault.Unavailablef("This is %s. Install ffmpeg, or use WebM, Ogg, MP3, WAV or FLAC.", format).WithCause(err)
	}
	f, err := os.CreateTemp("", "helix-audio-")
	if err != nil {
		return nil, fault.Unavailablef("Couldn't copy the recording for ffmpeg.").WithCause(err)
	}
	x := &ffmpeg{file: f.Name(), format: format}
	defer func() {
		if err != nil {
			x.close()
		}
	}()
	size, err := io.Copy(f, r)
	duration := mp4Duration(f, size)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fault.Unavailablef("Couldn't copy the recording for ffmpeg.").WithCause(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), ffmpegTime)
	x.cancel = cancel
	args := []string{path, "-v", "error", "-nostdin", "-threads", "1", "-protocol_whitelist", "file", "-i", "file:" + x.file, "-map", "0:a:0", "-map_metadata", "-1",
		"-t", fmt.Sprint(int(MaxDuration.Seconds()) + 1), "-c:a", "pcm_f32le", "-bitexact", "-f", "wav", "pipe:1"}
	if runtime.GOOS != "windows" {
		args = append([]string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -t %d -v %d; exec "$0" "$@"`, ffmpegCPU, ffmpegMemory)}, args...)
	}
	x.cmd = exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // a fixed program; the file name is ours
	x.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	x.cmd.WaitDelay = 5 * time.Second
	if x.out, err = x.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := x.cmd.Start(); err != nil {
		return nil, fault.Unavailablef("Couldn't start ffmpeg.").WithCause(err)
	}
	if x.decoder, err = openWAV(bufio.NewReaderSize(x.out, 64<<10)); err != nil {
		return nil, fmt.Errorf("ffmpeg: %w", err)
	}
	x.left = -1
	if duration > 0 {
		x.left = int64(math.Round(duration * float64(x.decoder.info().SampleRate)))
	}
	return x, nil
}

func (x *ffmpeg) info() Info {
	i := x.decoder.info()
	i.Format, i.Codec = x.format, "aac"
	return i
}

// next holds back what follows the end of the sound, and returns it only if it is too long to be padding.
func (x *ffmpeg) next() ([]float32, error) {
	for {
		out, err := x.read()
		if err != nil || x.left < 0 {
			return out, err
		}
		channels := x.decoder.info().Channels
		if n := int64(len(out) / channels); n <= x.left {
			x.left -= n
			return out, nil
		}
		x.padding = append(x.padding, out[x.left*int64(channels):]...)
		if len(x.padding) > mostPadding*channels {
			rest := slices.Concat(out[:x.left*int64(channels)], x.padding)
			x.left, x.padding = -1, nil
			return rest, nil
		}
		out = out[:x.left*int64(channels)]
		if x.left = 0; len(out) > 0 {
			return out, nil
		}
	}
}

// read returns what the program has decoded.
func (x *ffmpeg) read() ([]float32, error) {
	out, err := x.decoder.next()
	if errors.Is(err, io.EOF) {
		if failed := x.cmd.Wait(); failed != nil && !x.closed {
			err = fmt.Errorf("ffmpeg: %w", failed)
		}
		x.cmd = nil
		x.close()
	}
	return out, err
}

// close ends the program and removes the copy.
func (x *ffmpeg) close() {
	if x.closed {
		return
	}
	x.closed = true
	if x.cancel != nil {
		x.cancel()
	}
	if x.cmd != nil && x.cmd.Process != nil {
		_ = x.cmd.Wait() // it was killed
	}
	_ = os.Remove(x.file)
}
