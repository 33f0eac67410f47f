package container

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"helix/backend/fault"
	"helix/backend/lazyregexp"
)

// maxImage is the largest image that is imported.
const maxImage = 4 << 30

// imageTime limits the import or pull of an image.
const imageTime = 30 * time.Minute

// Image is an image on this computer.
type Image struct {
	Ref       string    `json:"ref"`
	ID        string    `json:"id"`     // sha256:…
	Digest    string    `json:"digest"` // of its repository; "": it was imported
	SizeBytes int64     `json:"sizeBytes"`
	CreatedAt time.Time `json:"createdAt"`
}

type imageJSON struct {
	ID          string `json:"Id"`
	RepoTags    []string
	RepoDigests []string
	Size        int64
	Created     json.RawMessage // a time, in a list seconds
}

func (x *imageJSON) image(ref string) Image {
	i := Image{Ref: ref, ID: x.ID, SizeBytes: x.Size}
	if !strings.HasPrefix(i.ID, "sha256:") {
		i.ID = "sha256:" + i.ID
	}
	if i.Ref == "" && len(x.RepoTags) > 0 {
		i.Ref = x.RepoTags[0]
	}
	if len(x.RepoDigests) > 0 && !strings.HasPrefix(i.Ref, "localhost/") {
		_, i.Digest, _ = strings.Cut(x.RepoDigests[0], "@")
	}
	var seconds int64
	if json.Unmarshal(x.Created, &seconds) == nil {
		i.CreatedAt = time.Unix(seconds, 0).UTC()
	} else {
		json.Unmarshal(x.Created, &i.CreatedAt) //nolint:errcheck // zero if the engine does not say
	}
	return i
}

// Images lists the images of the engine.
func (e *Engine) Images(ctx context.Context) ([]Image, error) {
	c, _, err := e.connected(ctx)
	if err != nil {
		return nil, err
	}
	var list []imageJSON
	if err := c.call(ctx, "GET", "/images/json", nil, nil, &list); err != nil {
		return nil, e.lost(c, err)
	}
	out := []Image{}
	for i := range list {
		if len(list[i].RepoTags) == 0 {
			out = append(out, list[i].image(""))
		}
		for _, tag := range list[i].RepoTags {
			out = append(out, list[i].image(tag))
		}
	}
	return out, nil
}

// Image returns an image on this computer by reference or id. One that is missing is an Unavailable error with
// the code ImageMissing; it is not pulled.
func (e *Engine) Image(ctx context.Context, ref string) (Image, error) {
	if err := CheckRef(ref); err != nil {
		return Image{}, err
	}
	c, _, err := e.connected(ctx)
	if err != nil {
		return Image{}, err
	}
	var x imageJSON
	err = c.call(ctx, "GET", "/images/"+ref+"/json", nil, nil, &x)
	var api *apiError
	if errors.As(err, &api) && api.status == 404 {
		return Image{}, unavailable(Reason{ImageMissing, "The image " + ref + " isn't on this computer.", "Pull it with: helix container pull " + ref})
	}
	if err != nil {
		return Image{}, e.lost(c, err)
	}
	return x.image(ref), nil
}

var refPattern = lazyregexp.New(`^[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,254}$`)

// CheckRef refuses texts that cannot be the reference or id of an image.
func CheckRef(ref string) error {
	if !refPattern().MatchString(ref) || strings.Contains(ref, "..") || strings.Contains(ref, "//") {
		return fault.InvalidField("ref", fault.CodeSyntax, "%.100q isn't the name of an image.", ref)
	}
	return nil
}

var digestPattern = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// IsDigest reports whether text is the digest of an image.
func IsDigest(text string) bool { return digestPattern().MatchString(text) }

// Progress is how far a pull has come, in bytes of all layers that are known so far.
type Progress struct{ Done, Size int64 }

// layers adds up the progress of the layers of an image.
type layers map[string]Progress

// pullLine is one line of what the engine says during a pull.
type pullLine struct {
	ID             string // of a layer
	Status         string
	Error          string
	ProgressDetail struct{ Current, Total int64 }
}

// add records a line and returns the sum.
func (l layers) add(line *pullLine) (sum Progress) {
	p := l[line.ID]
	switch {
	case line.Status == "Downloading" && line.ProgressDetail.Total > 0:
		p = Progress{min(line.ProgressDetail.Current, line.ProgressDetail.Total), line.ProgressDetail.Total}
	case line.Status == "Download complete" || line.Status == "Pull complete":
		p.Done = p.Size
	}
	if line.ID != "" && (p.Size > 0 || len(l) < maxLayers) {
		l[line.ID] = p
	}
	for _, p := range l {
		sum.Done, sum.Size = sum.Done+p.Done, sum.Size+p.Size
	}
	return sum
}

// maxLayers is how many layers of an image are counted.
const maxLayers = 1000

// Pull gets an image from its registry. With a digest, an image with another one is a Conflict. progress is called
// while layers arrive; nil: nothing is. If ctx ends the engine stops.
func (e *Engine) Pull(ctx context.Context, ref, digest string, progress func(Progress)) (Image, error) {
	if err := CheckRef(ref); err != nil {
		return Image{}, err
	}
	c, _, err := e.connected(ctx)
	if err != nil {
		return Image{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, imageTime)
	defer cancel()
	from, query := ref, url.Values{}
	if digest != "" {
		from = strings.Split(ref, "@")[0] + "@" + digest
	} else if !strings.Contains(path.Base(ref), ":") && !strings.Contains(ref, "@") {
		query.Set("tag", "latest")
	}
	query.Set("fromImage", from)
	resp, err := c.send(ctx, "POST", "/images/create", query, nil)
	var api *apiError
	if errors.As(err, &api) {
		return Image{}, fault.Unavailablef("Couldn't pull %s: %s", ref, clip(api.message, 300)).WithCause(err)
	}
	if err != nil {
		return Image{}, e.lost(c, err)
	}
	defer resp.Body.Close()
	lines, sum := json.NewDecoder(io.LimitReader(resp.Body, 64<<20)), layers{}
	for {
		var line pullLine
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Image{}, e.lost(c, err)
		}
		if line.Error != "" {
			return Image{}, fault.Unavailablef("Couldn't pull %s: %s", ref, clip(line.Error, 300))
		}
		if now := sum.add(&line); progress != nil && now.Size > 0 {
			progress(now)
		}
	}
	i, err := e.Image(ctx, from)
	if err == nil && digest != "" && i.Digest != digest {
		return Image{}, fault.Conflictf("The image has the digest %s, not %s. It won't be used.", i.Digest, digest)
	}
	return i, err
}

// RemoveImage removes an image. One that a container uses is a Conflict.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	if err := CheckRef(ref); err != nil {
		return err
	}
	c, _, err := e.connected(ctx)
	if err != nil {
		return err
	}
	e.drain(all) // they use images
	err = c.call(ctx, "DELETE", "/images/"+ref, nil, nil, nil)
	var api *apiError
	switch {
	case errors.As(err, &api) && api.status == 404:
		return fault.NotFoundf("The image %s isn't on this computer.", ref)
	case errors.As(err, &api) && api.status == 409:
		return fault.Conflictf("The image %s is in use: %s", ref, clip(api.message, 200))
	}
	return e.lost(c, err)
}

var namePattern = lazyregexp.New(`^[a-z0-9]+([._-][a-z0-9]+)*$`)

// ImportImage makes an image of a folder, or of a single static program that becomes its entry point, or loads
// an image archive that docker save or podman save wrote. Its reference is localhost/NAME:latest. The same
// files always make the same image.
func (e *Engine) ImportImage(ctx context.Context, from, name string) (Image, error) {
	if len(name) > 100 || !namePattern().MatchString(name) {
		return Image{}, fault.InvalidField("name", fault.CodeSyntax, "A name has small letters, digits and single . _ - between them.")
	}
	c, _, err := e.connected(ctx)
	if err != nil {
		return Image{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, imageTime)
	defer cancel()
	ref := "localhost/" + name + ":latest"
	info, err := os.Stat(from)
	if err != nil {
		return Image{}, fault.Invalidf("The file or folder can't be read.").WithCause(err)
	}
	archive, err := os.CreateTemp("", "helix-image-*.tar")
	if err != nil {
		return Image{}, err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	if !info.IsDir() && isArchive(from) {
		f, err := os.Open(from)
		if err != nil {
			return Image{}, fault.Invalidf("The archive can't be read.").WithCause(err)
		}
		defer f.Close()
		return e.load(ctx, c, f, ref, true)
	}
	if err := pack(archive, from, info, ref); err != nil {
		return Image{}, err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return Image{}, err
	}
	return e.load(ctx, c, archive, ref, false)
}

func isArchive(file string) bool {
	return strings.HasSuffix(file, ".tar") || strings.HasSuffix(file, ".tar.gz") || strings.HasSuffix(file, ".tgz")
}

var loadedPattern = lazyregexp.New(`Loaded image(?: ID)?(?:\(s\))?: ?([^\s"\\]+)`)

// load sends an archive to the engine. rename gives what it holds the name ref.
func (e *Engine) load(ctx context.Context, c *client, archive io.Reader, ref string, rename bool) (Image, error) {
	resp, err := c.send(ctx, "POST", "/images/load", url.Values{"quiet": {"1"}}, io.LimitReader(archive, maxImage))
	var api *apiError
	if errors.As(err, &api) {
		return Image{}, fault.Invalidf("The engine can't load the image: %s", clip(api.message, 300)).WithCause(err)
	}
	if err != nil {
		return Image{}, e.lost(c, err)
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	resp.Body.Close()
	if err != nil {
		return Image{}, e.lost(c, err)
	}
	m := loadedPattern().FindSubmatch(said)
	if m == nil {
		return Image{}, fault.Invalidf("The engine can't load the image: %s", clip(string(said), 300))
	}
	if rename {
		repo, tag, _ := strings.Cut(ref, ":")
		loaded := string(m[1])
		if err := CheckRef(loaded); err != nil {
			return Image{}, err
		}
		if err := c.call(ctx, "POST", "/images/"+loaded+"/tag", url.Values{"repo": {repo}, "tag": {tag}}, nil, nil); err != nil {
			return Image{}, e.lost(c, err)
		}
	}
	return e.Image(ctx, ref)
}

// pack writes an image archive with one layer: the entries are sorted and have fixed times and owners.
func pack(w io.Writer, from string, info fs.FileInfo, ref string) error {
	layer, err := os.CreateTemp("", "helix-layer-*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	sum := sha256.New()
	tw := tar.NewWriter(io.MultiWriter(layer, sum))
	entrypoint := []string{}
	if info.IsDir() {
		err = packFolder(tw, from)
	} else {
		entrypoint = []string{"/program"}
		err = packFile(tw, from, "program", 0o755, info.Size())
	}
	if err == nil {
		err = tw.Close()
	}
	if err != nil {
		return err
	}
	diff := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": map[string]any{"Entrypoint": entrypoint, "Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{diff}},
	})
	if err != nil {
		return err
	}
	configSum := sha256.Sum256(config)
	configName := hex.EncodeToString(configSum[:]) + ".json"
	manifest, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": []string{ref}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	size, err := layer.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = layer.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		r    io.Reader
		size int64
	}{{configName, bytes.NewReader(config), int64(len(config))}, {"layer.tar", layer, size}, {"manifest.json", bytes.NewReader(manifest), int64(len(manifest))}} {
		if err := out.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: f.size, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		if _, err := io.Copy(out, f.r); err != nil {
			return err
		}
	}
	return out.Close()
}

func packFile(tw *tar.Writer, file, name string, mode, size int64) error {
	f, err := os.Open(file)
	if err != nil {
		return fault.Invalidf("%s can't be read.", name).WithCause(err)
	}
	defer f.Close()
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: size, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	_, err = io.CopyN(tw, f, size)
	return err
}

// packFolder adds the files of a folder. Links are kept as links; what is neither file, folder nor link is refused.
func packFolder(tw *tar.Writer, root string) error {
	var total int64
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error { // in lexical order
		if err != nil {
			return fault.Invalidf("The folder can't be read.").WithCause(err)
		}
		rel, err := filepath.Rel(root, file)
		if err != nil || rel == "." {
			return err
		}
		name := filepath.ToSlash(rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		h := &tar.Header{Name: name, ModTime: time.Unix(0, 0), Mode: 0o644}
		switch {
		case d.IsDir():
			h.Typeflag, h.Mode, h.Name = tar.TypeDir, 0o755, name+"/"
			if name == "tmp" {
				h.Mode = 0o1777
			}
			return tw.WriteHeader(h)
		case info.Mode()&fs.ModeSymlink != 0:
			h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
			if h.Linkname, err = os.Readlink(file); err != nil {
				return err
			}
			return tw.WriteHeader(h)
		case !info.Mode().IsRegular():
			return fault.Invalidf("%s is neither a file nor a folder nor a link.", name)
		}
		if total += info.Size(); total > maxImage {
			return fault.Limitf("The folder is larger than 4 GiB.")
		}
		if info.Mode()&0o111 != 0 {
			h.Mode = 0o755
		}
		return packFile(tw, file, name, h.Mode, info.Size())
	})
}
