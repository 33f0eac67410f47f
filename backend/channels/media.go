package channels

import (
	"context"
	"fmt"
	"path"
	"strings"
	"unicode"
)

const (
	maxMedia     = 20 << 20 // bytes of a file
	maxMediaList = 10       // files of a message
	maxMediaName = 100      // bytes of a name
)

// storedMedia is a file of a message in channel_inbox.
type storedMedia struct {
	Name    string `json:"name"`
	Problem string `json:"problem,omitempty"` // why it isn't there, for its sender
}

// keepMedia stores the files of a message of an allowed sender.
func (s *Service) keepMedia(_ context.Context, list []Media) (out []storedMedia) {
	for i, m := range list {
		kept := storedMedia{Name: mediaName(m.Name)}
		switch {
		case i >= maxMediaList:
			kept.Problem = fmt.Sprintf("A message can have %d files.", maxMediaList)
		case m.Bytes > maxMedia:
			kept.Problem = fmt.Sprintf("%s is too large: a file can have 20 MB.", kept.Name)
		default:
			kept.Problem = textNoFiles
		}
		if out = append(out, kept); i >= maxMediaList {
			break
		}
	}
	return out
}

// mediaName returns the last part of a declared name, without control characters.
func mediaName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
	if name = strings.ToValidUTF8(name[:min(len(name), maxMediaName)], ""); name == "" || name == "." || name == ".." || name == "/" {
		return "file"
	}
	return name
}

// mediaProblems says which files of a message can't be used; "": all can.
func mediaProblems(list []storedMedia) string {
	var lines []string
	for _, m := range list {
		if m.Problem != "" {
			lines = append(lines, m.Problem)
		}
	}
	return strings.Join(lines, "\n")
}
