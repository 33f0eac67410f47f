package container

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/container/guest"
	"helix/backend/fault"
)

// Volume is where a tool keeps files between its runs. It is seen as /data.
type Volume struct {
	Name  string
	Quota int64 // bytes
}

// volumeWait is how long a run waits for another one that uses its volume.
const volumeWait = 30 * time.Second

var volumePattern = regexp.MustCompile(`^helix-[a-z0-9-]{1,100}$`)

// volumeState is what is known about a volume in this process.
type volumeState struct {
	free  chan struct{} // holds one value while no run uses it
	ready bool          // it exists and belongs to the user of containers
	used  int64         // bytes at the end of the last run that stored too much
}

// useVolume waits for a volume, makes it if necessary and adds it to the container. Only one run uses it at a time.
func (b *box) useVolume(ctx context.Context, v *Volume) (leave func(used int64), err error) {
	if !volumePattern.MatchString(v.Name) || v.Quota < 1<<20 {
		return nil, fault.Invalidf("The volume has no usable name or quota.")
	}
	e := b.e
	e.mu.Lock()
	s := e.volumes[v.Name]
	if s == nil {
		s = &volumeState{free: make(chan struct{}, 1)}
		s.free <- struct{}{}
		e.volumes[v.Name] = s
	}
	e.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, volumeWait)
	defer cancel()
	select {
	case <-s.free:
	case <-limited.Done():
		if ctx.Err() != nil {
			return nil, fault.New(fault.Canceled, "The run was canceled before it started.")
		}
		return nil, fault.Limitf("Another run uses the stored data of this tool. Wait for it to end.")
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

// prepareVolume creates a volume, and gives it to the user of containers: a new one belongs to root. That takes a
// run of the init process as root with nothing but the capabilities to change owners.
func (b *box) prepareVolume(ctx context.Context, name string, quota int64) error {
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	info := b.e.engineInfo()
	if !info.hardQuota {
		quota = 0 // the init process measures
	}
	if err := b.c.createVolume(ctx, name, b.e.owner, info.Kind, quota); err != nil {
		return err
	}
	file, err := b.e.initFile()
	if err != nil {
		return err
	}
	limits, err := Limits{}.WithDefaults()
	if err != nil {
		return err
	}
	run := uuid.New()
	owner := &box{e: b.e, c: b.c, run: run, body: b.e.body(b.body.Image, limits, run, "", time.Now().Add(apiTime))}
	b.e.hold(run)
	owner.id = containerName(owner.run.String())
	defer owner.remove()
	owner.body.User, owner.body.HostConfig.CapAdd, owner.body.HostConfig.Runtime = "0:0", []string{"CHOWN", "FOWNER"}, b.e.runtimeInUse()
	owner.body.Entrypoint, owner.body.Cmd = []string{guest.InitPath}, []string{guest.OwnArg}
	owner.body.HostConfig.Mounts = []mount{bind(file, guest.InitPath, true), volume(name, guest.DataPath)}
	if err := b.c.call(ctx, "POST", "/containers/create", url.Values{"name": {owner.id}}, &owner.body, nil); err != nil {
		return err
	}
	var end struct{ StatusCode int }
	if err := b.c.call(ctx, "POST", "/containers/"+owner.id+"/start", nil, nil, nil); err != nil {
		return err
	}
	if err := b.c.call(ctx, "POST", "/containers/"+owner.id+"/wait", nil, nil, &end); err != nil {
		return err
	}
	if end.StatusCode != 0 {
		return fault.Unavailablef("The stored data of the tool can't be prepared (status %d).", end.StatusCode)
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
		if v.Labels[labelOwner] != e.owner || !volumePattern.MatchString(v.Name) {
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
	if !volumePattern.MatchString(name) {
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
