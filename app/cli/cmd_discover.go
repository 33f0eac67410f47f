package cli

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"helix/backend/discovery"
)

type discoverCmd struct {
	Find    discoverFindCmd    `cmd:"" default:"withargs" help:"Find APIs and tools that can do something."`
	Request discoverRequestCmd `cmd:"" help:"Note that something is missing, so that candidates are looked for."`
	Queue   discoverQueueCmd   `cmd:"" help:"List what was requested."`
	Show    discoverShowCmd    `cmd:"" help:"Show a request with its candidates."`
	Accept  discoverAcceptCmd  `cmd:"" help:"Import a candidate. It runs only after its approval."`
	Reject  struct {
		requestArg
		Reason string `help:"Why, for the list."`
	} `cmd:"" help:"End a request without a tool." call:"discovery.reject" say:"Rejected."`
	Catalog discoverCatalogCmd `cmd:"" help:"Folders and lists in which APIs are looked for."`
}

type discoverFindCmd struct {
	Text   []string `arg:"" help:"What it should do, in a few words."`
	Limit  int      `default:"10"`
	Source []string `placeholder:"SOURCE" help:"catalog (built-in), directory (your catalogs) or imported (your tools). Default: all."`
}

func (d *discoverFindCmd) Run(c *command) error {
	p := discovery.SearchParams{Query: strings.Join(d.Text, " "), Sources: d.Source, Limit: d.Limit}
	return show(c, "discovery.search", p, func(r discovery.SearchResult) {
		c.printCandidates(r.Results)
		for _, x := range r.Skipped {
			c.say("%s: %s", plain(x.Source), plain(x.Reason))
		}
	})
}

func (c *command) printCandidates(found []discovery.Candidate) {
	list(c, found, "No results. Import the description of an API with: helix openapi import FILE --op KEY", []string{"REF", "TITLE", "AUTH", "HOSTS", "MATCHES", "DESCRIPTION"}, func(x discovery.Candidate) []string {
		return []string{x.Ref, x.Title, first(x.Auth, "-"), strings.Join(x.Hosts, ", "), strings.Join(x.Why, ", "), cut(x.Description, 60)}
	})
}

type discoverRequestCmd struct {
	Text []string `arg:"" help:"What is missing."`
}

func (d *discoverRequestCmd) Run(c *command) error {
	return show(c, "discovery.request", discovery.RequestParams{CapabilityDescription: strings.Join(d.Text, " ")}, func(r discovery.RequestResult) {
		c.say("Requested. To see candidates: helix discover show %s", r.RequestID)
	})
}

type discoverQueueCmd struct {
	Status string `help:"Only requests in this state: pending, searching, found, failed or rejected."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
}

func (*discoverQueueCmd) Run(c *command) error {
	return answer(c, "discovery.queue", func(r discovery.QueueResult) {
		list(c, r.Requests, "Nothing was requested.", []string{"ID", "STATE", "CANDIDATES", "BY", "WHAT IS MISSING"}, func(x discovery.Request) []string {
			return []string{x.RequestID.String(), x.Status, fmt.Sprint(len(x.Candidates)), x.RequestedBy, cut(x.CapabilityDescription, 60)}
		})
	})
}

type requestArg struct {
	ID uuid.UUID `arg:"" param:"requestId" help:"ID of the request."`
}

type discoverShowCmd struct{ requestArg }

func (*discoverShowCmd) Run(c *command) error {
	return answer(c, "discovery.queue_get", func(r discovery.Request) {
		c.fields("What is missing", r.CapabilityDescription, "State", r.Status, "Requested by", r.RequestedBy, "Chosen", r.Selected, "Error", r.Error)
		c.printCandidates(r.Candidates)
	})
}

type discoverAcceptCmd struct {
	requestArg
	Ref  string   `arg:"" help:"The candidate, such as catalog:open-meteo."`
	Op   []string `param:"operations" sep:"none" placeholder:"KEY" help:"An operation, such as \"get /v1/forecast\"; may be repeated. Default: all, if there are few."`
	Name string   `help:"Name of the tool."`
}

func (*discoverAcceptCmd) Run(c *command) error {
	return answer(c, "discovery.accept", func(r discovery.AcceptResult) {
		if r.Status == discovery.StatusPending {
			c.say("Imported. It waits for your approval: helix manifest approve %s", r.ManifestID)
		} else {
			c.say("The tool is %s.", r.Status)
		}
	})
}

type discoverCatalogCmd struct {
	List    catalogListCmd    `cmd:"" help:"List the catalogs."`
	Add     catalogAddCmd     `cmd:"" help:"Look for APIs in a folder with descriptions and manifests, too."`
	AddList catalogAddListCmd `cmd:"" help:"Look for APIs in a list on the web, too. Needs the setting discovery.online."`
	Remove  catalogRemoveCmd  `cmd:"" help:"Remove a catalog. Tools that came from it stay."`
	Refresh catalogRefreshCmd `cmd:"" help:"Read a catalog again."`
}

func (c *command) printCatalogs(r discovery.CatalogsResult) {
	list(c, r.Catalogs, "No catalogs. Add a folder with: helix discover catalog add FOLDER", []string{"ID", "KIND", "APIS", "LOCATION", "ERROR"}, func(x discovery.Catalog) []string {
		return []string{x.ID.String(), x.Kind, fmt.Sprint(x.Entries), x.Location, x.Error}
	})
}

type catalogListCmd struct{}

func (*catalogListCmd) Run(c *command) error { return answer(c, "discovery.catalogs", c.printCatalogs) }

type catalogAddCmd struct {
	Folder string `arg:"" param:"dir" type:"path" help:"A folder."`
}

func (*catalogAddCmd) Run(c *command) error {
	return answer(c, "discovery.catalog_add", c.printCatalogs)
}

type catalogAddListCmd struct {
	URL string `arg:"" param:"listUrl" help:"Address, such as https://api.apis.guru/v2/list.json."`
}

func (*catalogAddListCmd) Run(c *command) error {
	return answer(c, "discovery.catalog_add", c.printCatalogs)
}

type catalogArg struct {
	ID uuid.UUID `arg:"" param:"catalogId" help:"ID of the catalog."`
}

type catalogRemoveCmd struct{ catalogArg }

func (*catalogRemoveCmd) Run(c *command) error {
	return answer(c, "discovery.catalog_remove", c.printCatalogs)
}

type catalogRefreshCmd struct{ catalogArg }

func (*catalogRefreshCmd) Run(c *command) error {
	return answer(c, "discovery.catalog_refresh", c.printCatalogs)
}
