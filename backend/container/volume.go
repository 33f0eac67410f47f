package container

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/container/guest"
	"helix/backend/fault"
	"helix/backend/lazyregexp"
)

// Volume is where a tool keeps files between its runs. It is seen as /data.
type Volume struct {
	Name  string
	Quota int64 // bytes
}

// choreTime is how long copying a volume may take.
const choreTime = 10 * time.Minute

// volumeWait is how long a run waits for another one that uses its volume.
const volumeWait = 30 * time.Second

var volumePattern = lazyregexp.New(`^helix-[a-z0-9-]{1,100}$`)

// volumeState is what is known about a volume in this process.
type volumeState struct {
	free  chan struct{} // holds one value while no run uses it
	ready bool          // it exists and belongs to the user of containers
	used  int64         // bytes at the end of the last run that stored too much
}

// useVolume waits for a volume, makes it if necessary and adds it to the container. Only one run uses it at a time.
func (b *box) useVolume(ctx context.Context, v *Volume) (leave func(used int64), err error) {
	if !volumePattern().MatchString(v.Name) || v.Quota < 1<<20 {
		return nil, fault.Invalidf("The volume has no usable name or quota.")
	}
	s, err := b.e.lockVolume(ctx, v.Name)
	if err != nil {
		return nil, err
	}
	leave = func(used int64) {
		s.used = 0
		if used > v.Quota {
			s.used = used
		}
		s.free <- struct{}{}
	}
	if s.used > v.Quota {
		used := s.used
		leave(used)
		return nil, fault.Limitf("The tool stores %d MiB; its quota is %d MiB. Clear its stored data or raise the quota.", used>>20, v.Quota>>20)
	}
	if !s.ready {
		if err := b.prepareVolume(ctx, v.Name, v.Quota); err != nil {
			leave(0)
			return nil, err
		}
		s.ready = true
	}
	b.body.HostConfig.Mounts = append(b.body.HostConfig.Mounts, volume(v.Name, guest.DataPath))
	return leave, nil
}

// lockVolume waits until no run uses a volume. Sending to free ends the use.
func (e *Engine) lockVolume(ctx context.Context, name string) (*volumeState, error) {
	e.mu.Lock()
	s := e.volumes[name]
	if s == nil {
		s = &volumeState{free: make(chan struct{}, 1)}
		s.free <- struct{}{}
		e.volumes[name] = s
	}
	e.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, volumeWait)
	defer cancel()
	select {
	case <-s.free:
		return s, nil
	case <-limited.Done():
		if ctx.Err() != nil {
			return nil, fault.New(fault.Canceled, "The run was canceled before it started.")
		}
		return nil, fault.Limitf("Another run uses the stored data of this tool. Wait for it to end.")
	}
}

// prepareVolume creates a volume, and gives it to the user of containers: a new one belongs to root.
func (b *box) prepareVolume(ctx context.Context, name string, quota int64) error {
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	return b.e.makeVolume(ctx, b.c, b.body.Image, name, quota)
}

func (e *Engine) makeVolume(ctx context.Context, c *client, image, name string, quota int64) error {
	info := e.engineInfo()
	if !info.hardQuota {
		quota = 0 // the init process measures
	}
	if err := c.createVolume(ctx, name, e.owner, info.Kind, quota); err != nil {
		return err
	}
	status, err := e.chore(ctx, c, image, guest.OwnArg, 0, []string{"CHOWN", "FOWNER"}, volume(name, guest.DataPath))
	if err == nil && status != 0 {
		err = fault.Unavailablef("The stored data of the tool can't be prepared (status %d).", status)
	}
	return err
}

// chore runs the init process alone, as root with nothing but some capabilities, and returns its status. Files that it
// writes have at most the given size; 0: the default.
func (e *Engine) chore(ctx context.Context, c *client, image, arg string, fileSize int64, capabilities []string, mounts ...mount) (status int, err error) {
	file, err := e.initFile()
	if err != nil {
		return 0, err
	}
	limits, err := Limits{Wall: choreTime}.WithDefaults()
	if err != nil {
		return 0, err
	}
	if fileSize > 0 {
		limits.StorageBytes = fileSize
	}
	run := uuid.New()
	b := &box{e: e, c: c, run: run, body: e.body(image, limits, run, "", time.Now().Add(choreTime))}
	e.hold(run)
	b.id = containerName(b.run.String())
	defer b.remove()
	b.body.User, b.body.HostConfig.CapAdd, b.body.HostConfig.Runtime = "0:0", capabilities, e.runtimeInUse()
	b.body.Entrypoint, b.body.Cmd = []string{guest.InitPath}, []string{arg}
	b.body.HostConfig.Mounts = append([]mount{bind(file, guest.InitPath, true)}, mounts...)
	if err := c.call(ctx, "POST", "/containers/create", url.Values{"name": {b.id}}, &b.body, nil); err != nil {
		return 0, err
	}
	var end struct{ StatusCode int }
	if err := c.call(ctx, "POST", "/containers/"+b.id+"/start", nil, nil, nil); err != nil {
		return 0, err
	}
	err = c.call(ctx, "POST", "/containers/"+b.id+"/wait", nil, nil, &end)
	return end.StatusCode, err
}

// SnapshotVolume copies the files of a volume to another one, which loses what it had. It waits for the run that uses
// the volume. image is any image on this computer.
func (e *Engine) SnapshotVolume(ctx context.Context, image string, v Volume, snapshot string) error {
	return e.copyVolume(ctx, image, v.Name, Volume{snapshot, v.Quota})
}

// RestoreVolume replaces the files of a volume by those of a snapshot, which stays.
func (e *Engine) RestoreVolume(ctx context.Context, image, snapshot string, v Volume) error {
	return e.copyVolume(ctx, image, snapshot, v)
}

func (e *Engine) copyVolume(ctx context.Context, image, from string, to Volume) error {
	if !volumePattern().MatchString(from) || !volumePattern().MatchString(to.Name) || from == to.Name || to.Quota < 1<<20 {
		return fault.Invalidf("The volume has no usable name or quota.")
	}
	c, _, err := e.connected(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(slices.Values([]string{from, to.Name})) { // in one order, so that two copies don't wait for each other
		s, err := e.lockVolume(ctx, name)
		if err != nil {
			return err
		}
		defer func() { s.free <- struct{}{} }()
		if name == to.Name {
			defer func() { s.used = 0 }() // the next run measures
		}
	}
	ctx, cancel := context.WithTimeout(ctx, choreTime)
	defer cancel()
	if err := c.call(ctx, "GET", "/volumes/"+from, nil, nil, nil); err != nil {
		var api *apiError
		if errors.As(err, &api) && api.status == 404 {
			return fault.NotFoundf("There is no stored data to copy.")
		}
		return e.lost(c, err)
	}
	if err := e.makeVolume(ctx, c, image, to.Name, to.Quota); err != nil {
		return e.lost(c, refusedByEngine(err))
	}
	source := volume(from, guest.SourcePath)
	source.ReadOnly = true
	status, err := e.chore(ctx, c, image, guest.CopyArg, to.Quota, []string{"CHOWN", "FOWNER", "DAC_OVERRIDE"}, source, volume(to.Name, guest.DataPath))
	if err != nil {
		return e.lost(c, refusedByEngine(err))
	}
	if status != 0 {
		return fault.Unavailablef("The stored data can't be copied (status %d).", status)
	}
	return nil
}

// createVolume creates a volume unless it exists. A file system that cannot limit it to quota bytes is an error; 0:
// it is not limited.
func (c *client) createVolume(ctx context.Context, name, owner, kind string, quota int64) error {
	body := map[string]any{"Name": name, "Labels": map[string]string{labelOwner: owner}}
	switch size := strconv.FormatInt(quota, 10); {
	case quota == 0:
	case kind == "podman":
		body["DriverOpts"] = map[string]string{"o": "size=" + size}
	default:
		body["DriverOpts"] = map[string]string{"size": size}
	}
	return c.call(ctx, "POST", "/volumes/create", nil, body, nil)
}

// limitsVolumes reports whether the file system of the engine can limit volumes. It tries.
func (c *client) limitsVolumes(ctx context.Context, kind string) bool {
	name := "helix-probe-" + uuid.NewString()
	err := c.createVolume(ctx, name, "probe", kind, 1<<20)
	var api *apiError
	if rerr := c.call(ctx, "DELETE", "/volumes/"+name, nil, nil, nil); rerr != nil && !errors.As(rerr, &api) {
		return false
	}
	return err == nil
}

func (e *Engine) runtimeInUse() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runtime
}

// VolumeInfo is a volume of this data folder.
type VolumeInfo struct {
	Name      string
	CreatedAt time.Time
	UsedBytes int64 // -1: the engine does not say
}

// Volumes lists the volumes of this data folder, whoever made the tools that they belong to.
func (e *Engine) Volumes(ctx context.Context) ([]VolumeInfo, error) {
	c, _, err := e.connected(ctx)
	if err != nil {
		return nil, err
	}
	filter, err := json.Marshal(map[string][]string{"label": {labelOwner + "=" + e.owner}})
	if err != nil {
		return nil, err
	}
	type volumeJSON struct {
		Name, CreatedAt string
		Labels          map[string]string
		UsageData       *struct{ Size int64 }
	}
	var list, used struct{ Volumes []volumeJSON }
	if err := c.call(ctx, "GET", "/volumes", url.Values{"filters": {string(filter)}}, nil, &list); err != nil {
		return nil, e.lost(c, err)
	}
	out := []VolumeInfo{}
	sizes := map[string]int64{}
	if len(list.Volumes) > 0 { // measuring them takes the engine longer than listing them
		if err := c.call(ctx, "GET", "/system/df", url.Values{"type": {"volume"}}, nil, &used); err != nil && ctx.Err() != nil {
			return nil, fault.As(err)
		}
	}
	for _, v := range used.Volumes {
		if v.UsageData != nil {
			sizes[v.Name] = v.UsageData.Size
		}
	}
	for _, v := range list.Volumes {
		if v.Labels[labelOwner] != e.owner || !volumePattern().MatchString(v.Name) {
			continue
		}
		i := VolumeInfo{Name: v.Name, UsedBytes: -1}
		if n, ok := sizes[v.Name]; ok {
			i.UsedBytes = n
		}
		i.CreatedAt, _ = time.Parse(time.RFC3339, v.CreatedAt) //nolint:errcheck // zero if the engine does not say
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b VolumeInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// RemoveVolume removes a volume with everything in it. One that a container uses is a Conflict, one that does not
// exist is no error.
func (e *Engine) RemoveVolume(ctx context.Context, name string) error {
	if !volumePattern().MatchString(name) {
		return fault.Invalidf("The volume has no usable name.")
	}
	c, _, err := e.connected(ctx)
	if err != nil {
		return err
	}
	e.drain(func(p *prepared) bool {
		return slices.ContainsFunc(p.b.body.HostConfig.Mounts, func(m mount) bool { return m.Type == "volume" && m.Source == name })
	})
	err = c.call(ctx, "DELETE", "/volumes/"+name, nil, nil, nil)
	var api *apiError
	if errors.As(err, &api) && api.status == 409 {
		return fault.Conflictf("A run uses the stored data. Wait for it to end.")
	}
	if err != nil && (!errors.As(err, &api) || api.status != 404) {
		return e.lost(c, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.volumes[name]; s != nil {
		select {
		case <-s.free: // no run uses it
			s.ready, s.used = false, 0
			s.free <- struct{}{}
		default:
		}
	}
	return nil
}
