/* SPDX-License-Identifier: Apache-2.0 */
/* xml.h - as much of XML 1.0 as the answers of STS, SNS and S3 need: elements, text, the five named entities, and
 * references to the characters of ASCII by number.
 *
 * A view is searched, nothing is built. Attributes and prefixes are passed over; comments and
 * processing instructions are skipped; CDATA and DOCTYPE are MALFORMED, so that nothing can hide or
 * expand. Pure, one pass for each search.
 */
#ifndef KS_AWS_XML_H
#define KS_AWS_XML_H

#include "base/bytes.h"

/* The content of the first element `name` that stands directly in `content` (the whole document, or
 * the content of an element); still with its entities and its own elements. NOT_FOUND, MALFORMED.
 */
KS_MUST_USE ks_err ks_xml_child(ks_view content, const char *name, ks_view *ret_content);

/* As ks_xml_child, and `content` becomes what follows the element: the next call finds the next one. All elements of a
 * list take one pass. */
KS_MUST_USE ks_err ks_xml_next(ks_view *content, const char *name, ks_view *ret_content);

/* Turns the content of an element without elements into text: trimmed, entities replaced; at most
 * `capacity` bytes with the NUL. FULL, MALFORMED. */
KS_MUST_USE ks_err ks_xml_text(ks_view content, char *buffer, size_t capacity);

#endif
