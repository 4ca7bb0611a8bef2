"""The store: images as content-addressed chunks, each kept once. The format is docs/format/store.md.

Above: `put`, `get`, `verify`, `prune`, `transfer`, `diff`. In the middle: `repository` (config, images, tags), `locks`,
`writer` and `chunks` (how chunks get in and out), `plan` (how images are cut). Below: the objects (`pack`, `index`,
`contents`, `sealed`), `codec` and `chooser`, and the backends (`backend`, `local`, `archive`).
"""
