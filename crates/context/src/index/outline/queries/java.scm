; What a Java file defines.
(class_declaration name: (identifier) @name body: (_) @body) @def.class
(interface_declaration name: (identifier) @name body: (_) @body) @def.interface
(annotation_type_declaration name: (identifier) @name body: (_) @body) @def.interface
(enum_declaration name: (identifier) @name body: (_) @body) @def.enum
(record_declaration name: (identifier) @name body: (_) @body) @def.struct
(method_declaration name: (identifier) @name body: (_) @body) @def.fn
(method_declaration name: (identifier) @name) @def.fn
(constructor_declaration name: (identifier) @name body: (_) @body) @def.fn
