/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/xml.h"

#include "ks_test.h"

static void expect_text(const char *document, const char *name, const char *expected)
{
    ks_view content;
    char text[64];

    EXPECT_OK(ks_xml_child(ks_view_text(document), name, &content));
    EXPECT_OK(ks_xml_text(content, text, sizeof(text)));
    EXPECT_STR(text, expected);
}

static ks_err child(const char *document, const char *name)
{
    ks_view content;

    return ks_xml_child(ks_view_text(document), name, &content);
}

TEST(children_are_found)
{
    expect_text("<a>x</a>", "a", "x");
    expect_text("<?xml version=\"1.0\"?>\n<!-- <a>no</a> --><a xmlns=\"u\" q='>'> x </a>", "a",
                "x");
    expect_text("<n:a>x</n:a>", "a", "x");
    expect_text("<b/><b><a>deep</a></b><a>x</a><a>second</a>", "a", "x");
    expect_text("<a/>", "a", "");
    expect_text("<a />", "a", "");
    expect_text("<a></a >", "a", "");
    expect_text("text <a>x</a>", "a", "x");
}

TEST(next_finds_one_element_after_the_other)
{
    ks_view list = KS_VIEW("<m>1</m> <other><m>deep</m></other><m/><!-- <m>no</m> --><m>3</m>");
    const char *const expected[] = {"1", "", "3"};
    ks_view content;

    for (size_t at = 0; at < 3; at++) {
        char text[8];

        EXPECT_OK(ks_xml_next(&list, "m", &content));
        EXPECT_OK(ks_xml_text(content, text, sizeof(text)));
        EXPECT_STR(text, expected[at]);
    }
    EXPECT_ERR(ks_xml_next(&list, "m", &content), NOT_FOUND);
    list = KS_VIEW("<m>1</m><m>");
    EXPECT_OK(ks_xml_next(&list, "m", &content));
    EXPECT_ERR(ks_xml_next(&list, "m", &content), MALFORMED);
}

TEST(elements_of_the_same_name_nest)
{
    ks_view content;

    EXPECT_OK(ks_xml_child(KS_VIEW("<a><a>1</a><b/><a>2</a></a>"), "a", &content));
    EXPECT(ks_view_equal(content, KS_VIEW("<a>1</a><b/><a>2</a>")));
}

TEST(what_is_not_there_or_broken_is_told)
{
    EXPECT(ks_err_is(child("", "a"), KS_ERR_NOT_FOUND));
    EXPECT(ks_err_is(child("text", "a"), KS_ERR_NOT_FOUND));
    EXPECT(ks_err_is(child("<b><a>x</a></b>", "a"), KS_ERR_NOT_FOUND));
    EXPECT(ks_err_is(child("<ab>x</ab>", "a"), KS_ERR_NOT_FOUND));
    EXPECT(ks_err_is(child("<a>x", "a"), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(child("<a>x</b>", "a"), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(child("</a>", "a"), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(child("<a", "a"), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(child("<>", "a"), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(child("</>", "a"), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(child("<a q=\"></a>", "a"), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(child("<!-- <a>x</a>", "a"), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(child("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "a"), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(child("<a><![CDATA[</a>]]></a>", "a"), KS_ERR_MALFORMED));
}

TEST(text_is_trimmed_and_its_entities_replaced)
{
    char text[8];

    EXPECT_OK(ks_xml_text(KS_VIEW("\n a&lt;&amp;&gt; "), text, sizeof(text)));
    EXPECT_STR(text, "a<&>");
    EXPECT_OK(ks_xml_text(KS_VIEW("&quot;&apos;"), text, sizeof(text)));
    EXPECT_STR(text, "\"'");
    EXPECT_OK(ks_xml_text(KS_VIEW("&amp;lt;"), text, sizeof(text)));
    EXPECT_STR(text, "&lt;");
    EXPECT_OK(ks_xml_text(KS_VIEW("7654321"), text, sizeof(text)));
    EXPECT(ks_err_is(ks_xml_text(KS_VIEW("87654321"), text, sizeof(text)), KS_ERR_FULL));
    EXPECT(ks_err_is(ks_xml_text(KS_VIEW("&"), text, sizeof(text)), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_xml_text(KS_VIEW("a<b"), text, sizeof(text)), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_xml_text(KS_VIEW("a\0b"), text, sizeof(text)), KS_ERR_MALFORMED));
}

TEST(characters_of_ascii_may_be_numbers)
{
    static const char *const broken[] = {"&#;",    "&#x;",   "&#0;",   "&#x80;",     "&#128;",
                                         "&#65",   "&#x",    "&#",     "&#6a;",      "&#xg;",
                                         "&#-65;", "&#+65;", "&# 65;", "&#00000065;"};
    char text[8];

    EXPECT_OK(ks_xml_text(KS_VIEW("&#34;a&#x22;&#x3C;"), text, sizeof(text)));
    EXPECT_STR(text, "\"a\"<");
    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++)
        EXPECT(
            ks_err_is(ks_xml_text(ks_view_text(broken[at]), text, sizeof(text)), KS_ERR_MALFORMED));
}

TEST(elements_of_a_list_follow_one_another)
{
    ks_view rest = KS_VIEW("<a>1</a><b><a>no</a></b><a/><a>3</a> text <c/>");
    ks_view content;

    EXPECT_OK(ks_xml_next(&rest, "a", &content));
    EXPECT(ks_view_equal(content, KS_VIEW("1")));
    EXPECT_OK(ks_xml_next(&rest, "a", &content));
    EXPECT_EQ_U64(content.size, 0);
    EXPECT_OK(ks_xml_next(&rest, "a", &content));
    EXPECT(ks_view_equal(content, KS_VIEW("3")));
    EXPECT_ERR(ks_xml_next(&rest, "a", &content), NOT_FOUND);
    EXPECT(ks_view_equal(rest, KS_VIEW(" text <c/>")));
}
