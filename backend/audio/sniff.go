package audio

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"strings"

	"helix/backend/fault"
)

// sniff returns the format that the first bytes belong to. It ignores file names and declared media
// types.
func sniff(r *bufio.Reader) (string, error) {
	b, _ := r.Peek(12) // a shorter file is judged by the bytes it has
	has := func(at int, magic string) bool {
		return len(b) >= at+len(magic) && string(b[at:at+len(magic)]) == magic
	}
	switch {
	case len(b) == 0:
		return "", fault.Invalidf("The file is empty.")
	case (has(0, "RIFF") || has(0, "RF64")) && has(8, "WAVE"):
		return "wav", nil
	case has(0, "fLaC"):
		return "flac", nil
	case has(0, "OggS"):
		return "ogg", nil
	case has(0, "\x1aE\xdf\xa3"):
		return "webm", nil
	case has(4, "ftyp"):
		return "m4a", nil
	case has(0, "caff"):
		return "caf", nil
	case has(0, "ID3"):
		return "mp3", nil
	}
	if _, ok := parseMP3Header(b); ok {
		return "mp3", nil
	}
	if len(bytes.Trim(b, "\x00")) == 0 { // zero bytes, which some programs leave before the first frame
		if b, _ = r.Peek(4096); len(bytes.TrimLeft(b, "\x00")) >= 4 {
			if _, ok := parseMP3Header(bytes.TrimLeft(b, "\x00")); ok {
				return "mp3", nil
			}
		}
	}
	b, _ = r.Peek(8)
	return "", fault.Invalidf("Helix doesn't recognize this audio format. The file starts with %s.", strings.ToUpper(hex.EncodeToString(b)))
}
