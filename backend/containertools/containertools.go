// Package containertools makes programs in container images callable. A tool is one image by its id, a
// command and limits; it runs only after a person approved exactly that definition, in a container without
// network, and under the permissions, limits and audit log of every other tool. Package container runs
// them; the composition root imports this package.
package containertools

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

// Kind is the kind of these tools as callables and as permission subjects.
const Kind callable.Kind = "container"

// Limits of a user.
const (
	maxTools = 200
	perUser  = 4 // runs at once
)

// Engine runs containers. *container.Engine implements it.
type Engine interface {
	Status() container.Status
	Recheck(ctx context.Context) container.Status
	Execute(ctx context.Context, s container.Spec) (container.Result, error)
	Kill(run string) bool
	Image(ctx context.Context, ref string) (container.Image, error)
	Images(ctx context.Context) ([]container.Image, error)
	Pull(ctx context.Context, ref, digest string, progress func(container.Progress)) (container.Image, error)
	ImportImage(ctx context.Context, from, name string) (container.Image, error)
	RemoveImage(ctx context.Context, ref string) error
	Reap(ctx context.Context) ([]string, error)
	Volumes(ctx context.Context) ([]container.VolumeInfo, error)
	RemoveVolume(ctx context.Context, name string) error
	SnapshotVolume(ctx context.Context, image string, v container.Volume, snapshot string) error
	RestoreVolume(ctx context.Context, image, snapshot string, v container.Volume) error
}

// Options configure New.
type Options struct {
	Logger     *slog.Logger // nil: slog.Default
	Permission *permission.Service
	Audit      *audit.Service
	// Dial connects to a host that a run may reach, if its address is no special one; nil: no tool has a network.
	Dial func(ctx context.Context, host string, port int) (net.Conn, error)
	// Secret returns a secret of the user in ctx.
	Secret func(ctx context.Context, name string) ([]byte, error)
	// Scrub removes the user's secrets from text; nil: nothing is removed.
	Scrub func(ctx context.Context, text string) string
}

// Service manages the container tools of all users. It is safe for concurrent use.
type Service struct {
	db     *storage.DB
	engine Engine
	o      Options
	log    *slog.Logger
	gate   callable.Gate
	began  time.Time

	pulls pulls

	mu      sync.Mutex
	running map[uuid.UUID]*inProgress // by run
}

type inProgress struct {
	tool, user uuid.UUID // of an image without a tool, tool is zero
	cancel     context.CancelCauseFunc
}

// StatusChanged is the event container.status_changed: an engine was found or lost.
type StatusChanged struct {
	Available bool `json:"available"`
}

// RunChanged is the event container.run: a run has entered a phase.
type RunChanged struct {
	RunID  uuid.UUID `json:"runId"`
	ToolID uuid.UUID `json:"toolId,omitzero"` // absent: an image was run without a tool
	Name   string    `json:"name"`            // of the tool or the image
	Phase  string    `json:"phase"`           // create, start, ready, running, ended or removed
	Usage  *Usage    `json:"usage,omitempty"` // in the last phase
}

// New returns a Service on db.
func New(db *storage.DB, engine Engine, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Scrub == nil {
		o.Scrub = func(_ context.Context, text string) string { return text }
	}
	return &Service{
		db: db, engine: engine, o: o, log: o.Logger, gate: callable.Gate{Permission: o.Permission, Record: o.Audit.RecordWith, Logger: o.Logger},
		began: time.Now(), running: map[uuid.UUID]*inProgress{},
	}
}

// Recover ends the runs in the log that were in progress when the last process ended.
func (s *Service) Recover(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE container_runs SET status = 'failure', error_class = 'interrupted', error_message = 'Helix was stopped during the run.' WHERE status = 'running' AND created_at < ?`, s.began)
		return err
	})
}

// Retention is the policy for the log of runs.
func Retention() storage.Retention {
	return storage.Retention{Table: "container_runs", Time: "created_at", Payloads: []string{"output", "log"}, Only: `status <> 'running'`}
}

// Status returns what is available on this computer, without looking again.
func (s *Service) Status(_ context.Context, _ struct{}) (container.Status, error) {
	return s.engine.Status(), nil
}

// Recheck looks for a container engine again.
func (s *Service) Recheck(ctx context.Context, _ struct{}) (container.Status, error) {
	return s.engine.Recheck(ctx), nil
}

// RemovedResult is what was removed.
type RemovedResult struct {
	Removed []string `json:"removed"`
}

// Reap removes containers that an earlier process of this data folder left over. Others are never touched.
func (s *Service) Reap(ctx context.Context, _ struct{}) (RemovedResult, error) {
	ids, err := s.engine.Reap(ctx)
	if err != nil {
		return RemovedResult{}, err
	}
	if ids == nil {
		ids = []string{}
	}
	return RemovedResult{ids}, s.record(ctx, "container.reaped", "", map[string]any{"containers": len(ids)})
}

// Image is an image on this computer.
type Image struct {
	container.Image
	UsedBy []string `json:"usedBy"` // names of tools
}

// ImagesResult lists images.
type ImagesResult struct {
	Images []Image `json:"images"`
}

// Images lists the images on this computer.
func (s *Service) Images(ctx context.Context, _ struct{}) (ImagesResult, error) {
	list, err := s.engine.Images(ctx)
	if err != nil {
		return ImagesResult{}, err
	}
	tools, err := s.tools(ctx)
	if err != nil {
		return ImagesResult{}, err
	}
	out := ImagesResult{Images: []Image{}}
	for _, i := range list {
		x := Image{i, []string{}}
		for _, t := range tools {
			if t.Definition.ImageID == i.ID {
				x.UsedBy = append(x.UsedBy, t.Name)
			}
		}
		out.Images = append(out.Images, x)
	}
	return out, nil
}

// ImportImageParams name what an image is made of.
type ImportImageParams struct {
	Path string `json:"path"` // a folder, a static program, or an image archive (.tar, .tar.gz)
	Name string `json:"name"`
}

// ImportImage makes an image of a folder or a static program without network, or loads an image archive.
func (s *Service) ImportImage(ctx context.Context, p ImportImageParams) (container.Image, error) {
	i, err := s.engine.ImportImage(ctx, p.Path, p.Name)
	if err != nil {
		return i, err
	}
	return i, s.record(ctx, "container.image_imported", i.ID, map[string]any{"ref": i.Ref})
}

// ImageParams name an image.
type ImageParams struct {
	Ref string `json:"ref"`
}

// RemoveImage removes an image. One that a tool uses is a Conflict.
func (s *Service) RemoveImage(ctx context.Context, p ImageParams) (RemovedResult, error) {
	i, err := s.engine.Image(ctx, p.Ref)
	if err != nil {
		return RemovedResult{}, err
	}
	tools, err := s.tools(ctx)
	if err != nil {
		return RemovedResult{}, err
	}
	for _, t := range tools {
		if t.Definition.ImageID == i.ID {
			return RemovedResult{}, fault.Conflictf("The tool %s uses this image. Revoke the tool first: helix container revoke %s", t.Name, t.Name)
		}
	}
	if err := s.engine.RemoveImage(ctx, p.Ref); err != nil {
		return RemovedResult{}, err
	}
	return RemovedResult{[]string{p.Ref}}, s.record(ctx, "container.image_removed", i.ID, map[string]any{"ref": p.Ref})
}

func (s *Service) record(ctx context.Context, action, id string, details map[string]any) error {
	return s.o.Audit.Record(ctx, audit.Entry{Action: action, SubjectKind: string(Kind), SubjectID: id, Details: details})
}

// publish sends an event that belongs to no transaction.
func publish[E any](s *Service, user uuid.UUID, e E) { bus.Publish(s.db.Bus(), user, e) }
