"""What atoms are and where they come from: arrays, files, tables, shipped words; and how things are saved.

It knows formats, encodings and which atoms are which, not what is optimised. Begin with `atoms`:
whatever a caller gives becomes `Atoms` there. A table is a source of batches of Arrow, in memory (`tables`)
or in files (`table_files`); `encoding` makes numbers of them, and `table_atoms` keeps what they were. One
file per saved object is `store`, and `codec` turns records into such files and back.
"""

# SPDX-License-Identifier: Apache-2.0
