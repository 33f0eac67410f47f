package coretools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path"
	"unicode/utf8"

	"helix/backend/callable"
	"helix/backend/fault"
)

// maxWrite is the maximum size of a file that is written or edited, in bytes.
const maxWrite = 4 << 20

// maxSave is the maximum size of a file saved by Save, in bytes.
const maxSave = 10 << 20

const areaSchema = `"path":{"type":"string","minLength":1,"maxLength":4096,"description":"A path below /shared or /tmp."}`

var changedSchema = output(`"path","changed"`, `"path":{"type":"string"},"changed":{"type":"boolean","description":"false: it was like this already."},
	"created":{"type":"boolean"},"bytes":{"type":"integer"},"hash":{"type":"string","description":"SHA-256 of the file now."},
	"line":{"type":"integer","description":"First line that was edited."},"undoToken":{"type":"string"}`)

// Changed is the effect of a call on a file.
type Changed struct {
	Path      string `json:"path"`
	Changed   bool   `json:"changed"`
	Created   bool   `json:"created,omitempty"`
	Bytes     int64  `json:"bytes"`
	Hash      string `json:"hash,omitempty"`
	Line      int    `json:"line,omitempty"`
	UndoToken string `json:"undoToken,omitempty"`
}

// writable parses a path that a call writes to.
func writable(text string) (place, error) {
	p, err := parsePath(text)
	switch {
	case err != nil:
		return p, err
	case p.area != shared && p.area != tmp:
		return p, refusedPath("Files can be changed in /shared and /tmp only.")
	case p.rel == ".":
		return p, refusedPath("%s itself cannot be changed.", p.text)
	}
	return p, nil
}

func (s *Service) writeTool() callable.Func {
	info := callable.Info{
		Name: "file.write", Title: "Writes a file.", Effects: callable.Effects{Idempotent: true, Destructive: true},
		Description: "Writes a whole text file below /shared or /tmp and makes its folders. A file that is there is replaced; the former one can be restored with the undo token. Use file.edit to change a part.",
		Input: object(`"path","text"`, areaSchema+`,
			"text":{"type":"string","maxLength":4194304},
			"hash":{"type":"string","description":"Replace only the file with this hash, as file.read returned it; empty: only when there is no file."}`),
		Output: changedSchema,
	}
	return callable.Func{Info: info, Run: callable.Typed(func(ctx context.Context, c callable.Request, in struct {
		Path, Text string
		Hash       *string
	}) (any, error) {
		p, err := writable(in.Path)
		if err != nil {
			return nil, err
		}
		return s.put(ctx, &c, p, maxWrite, func(_ []byte, hash string, _ *Changed) ([]byte, error) {
			if in.Hash != nil && *in.Hash != hash {
				return nil, errChanged(p, hash)
			}
			return []byte(in.Text), nil
		})
	})}
}

func errChanged(p place, hash string) error {
	if hash == "" {
		return fault.NotFoundf("There is no file %s.", p.text)
	}
	return fault.Conflictf("%s has other content than was read. Nothing was changed. Read it again.", p.text).WithDetails(map[string]string{"hash": hash})
}

func (s *Service) editTool() callable.Func {
	info := callable.Info{
		Name: "file.edit", Title: "Edits a file.", Effects: callable.Effects{Idempotent: true, Destructive: true},
		Description: "Replaces one piece of a text file below /shared or /tmp. old must be in the file exactly once, with its spaces and line breaks. hash is what file.read returned; when the file has changed since, nothing is done.",
		Input: object(`"path","old","new","hash"`, areaSchema+`,
			"old":{"type":"string","minLength":1,"maxLength":1048576,"description":"The exact text to replace."},
			"new":{"type":"string","maxLength":1048576,"description":"What takes its place."},
			"hash":{"type":"string","minLength":1,"description":"The hash that file.read, file.write or file.edit returned."}`),
		Output: changedSchema,
	}
	return callable.Func{Info: info, Run: callable.Typed(func(ctx context.Context, c callable.Request, in struct {
		Path, Old, New, Hash string
	}) (any, error) {
		p, err := writable(in.Path)
		if err != nil {
			return nil, err
		}
		return s.put(ctx, &c, p, maxWrite, func(text []byte, hash string, out *Changed) ([]byte, error) {
			switch {
			case hash != in.Hash:
				return nil, errChanged(p, hash)
			case len(text) > maxWrite:
				return nil, fault.Limitf("%s has more than %d bytes, so it cannot be edited.", p.text, maxWrite)
			case !utf8.Valid(text):
				return nil, fault.Invalidf("%s is not text in UTF-8, so it cannot be edited.", p.text)
			}
			switch n := bytes.Count(text, []byte(in.Old)); n {
			case 0:
				return nil, fault.Invalidf("The old text is not in %s. Nothing was changed. Read it again and copy the text exactly.", p.text)
			case 1:
			default:
				return nil, fault.Invalidf("The old text is in %s %d times. Nothing was changed. Give more of what stands around it.", p.text, n)
			}
			before, _, _ := bytes.Cut(text, []byte(in.Old))
			out.Line = 1 + bytes.Count(before, []byte("\n"))
			return bytes.Replace(text, []byte(in.Old), []byte(in.New), 1), nil
		})
	})}
}

// Save writes a file of any type below /shared or /tmp, as the call r. An existing file is
// replaced; the undo token in the result restores it.
func (s *Service) Save(ctx context.Context, r callable.Request, path string, data []byte) (any, error) {
	p, err := writable(path)
	if err != nil {
		return nil, err
	}
	return s.put(ctx, &r, p, maxSave, func([]byte, string, *Changed) ([]byte, error) { return data, nil })
}

// put replaces the content of the file p by the result of next, at most most bytes. next receives
// the previous content and its hash, which is "" if the file does not exist.
func (s *Service) put(ctx context.Context, c *callable.Request, p place, most int, next func(text []byte, hash string, out *Changed) ([]byte, error)) (any, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	a, err := s.change(ctx, p)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	text, hash, err := a.content(ctx, p.rel, maxWrite+1)
	if err != nil {
		return nil, err
	}
	out := &Changed{Path: p.text, Changed: true}
	if was, err := readChange(a.Root, changeID(c)); err == nil && was.Path == p.rel && was.After != "" && was.After == hash { // done by an earlier attempt
		out.Created, out.Bytes, out.Hash = was.Before == "", int64(len(text)), hash
		out.UndoToken, err = s.token(ctx, a.name, changeID(c))
		return out, err
	}
	made, err := next(text, hash, out)
	if err != nil {
		return nil, err
	}
	if len(made) > most {
		return nil, fault.Limitf("A file that is written has at most %d bytes.", most)
	}
	sum := sha256.Sum256(made)
	out.Bytes, out.Hash = int64(len(made)), hex.EncodeToString(sum[:])
	if out.Hash == hash {
		out.Changed = false
		return out, nil
	}
	out.Created = hash == ""
	dir, err := a.keep(changeID(c), change{Path: p.rel, Before: hash, After: out.Hash}, made)
	if err == nil {
		out.UndoToken, err = s.token(ctx, a.name, dir)
	}
	if err == nil {
		err = a.move(path.Join(dir, nextName), p.rel)
	}
	if err != nil {
		return nil, errors.Join(err, a.RemoveAll(dir))
	}
	return out, nil
}

func (s *Service) deleteTool() callable.Func {
	info := callable.Info{
		Name: "file.delete", Title: "Deletes a file or folder.", Effects: callable.Effects{Idempotent: true, Destructive: true},
		Description: "Moves a file or folder below /shared or /tmp to the trash, where it is kept for 30 days. The undo token restores it.",
		Input:       object(`"path"`, areaSchema+`,"recursive":{"type":"boolean","description":"Also a folder that is not empty. Default: false."}`),
		Output:      changedSchema,
	}
	return callable.Func{Info: info, Run: callable.Typed(func(ctx context.Context, c callable.Request, in struct {
		Path      string
		Recursive bool
	}) (any, error) {
		p, err := writable(in.Path)
		if err != nil {
			return nil, err
		}
		s.changing.Lock()
		defer s.changing.Unlock()
		a, err := s.change(ctx, p)
		if err != nil {
			return nil, err
		}
		defer a.Close()
		return s.remove(ctx, a, p, changeID(&c), in.Recursive)
	})}
}

func (s *Service) remove(ctx context.Context, a *area, p place, id string, recursive bool) (any, error) {
	out := &Changed{Path: p.text, Changed: true}
	if parent, _, err := a.open(path.Dir(p.rel)); err != nil { // a link in the path
		return nil, err
	} else if parent != nil {
		parent.Close()
	}
	info, err := a.Lstat(p.rel)
	if errors.Is(err, fs.ErrNotExist) {
		if was, rerr := readChange(a.Root, id); rerr == nil && was.Path == p.rel && was.After == "" { // done by an earlier attempt
			out.UndoToken, err = s.token(ctx, a.name, id)
			return out, err
		}
	}
	if err != nil {
		return nil, fileError(err)
	}
	if info.IsDir() && !recursive {
		dir, err := a.Open(p.rel)
		if err != nil {
			return nil, fileError(err)
		}
		_, err = dir.Readdirnames(1)
		dir.Close()
		if !errors.Is(err, io.EOF) {
			return nil, fault.Invalidf("%s is not empty. Set recursive to delete it with everything below.", p.text)
		}
	}
	dir, err := a.keep(id, change{Path: p.rel, Before: "-"}, nil)
	if err == nil {
		out.UndoToken, err = s.token(ctx, a.name, dir)
	}
	if err == nil {
		err = a.move(p.rel, path.Join(dir, wasName))
	}
	if err != nil {
		return nil, errors.Join(err, a.RemoveAll(dir))
	}
	return out, nil
}
