// SPDX-License-Identifier: Apache-2.0
using System.Collections.Generic;
using System.IO;
using System.Text;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    [TestFixture]
    public class JsonTests
    {
        [Test]
        public void values_are_read()
        {
            var members = (Dictionary<string, object>)Json.Parse(
                " {\"a\":[1,-2.5e3,true,false,null],\"b\":{},\"c\":[],\"d\":\"\\\"\\\\\\/\\n\\u00e4\"} ");
            CollectionAssert.AreEqual(new object[] { 1.0, -2500.0, true, false, null }, (List<object>)members["a"]);
            Assert.IsEmpty((Dictionary<string, object>)members["b"]);
            Assert.IsEmpty((List<object>)members["c"]);
            Assert.AreEqual("\"\\/\n\u00e4", members["d"]);
        }

        [TestCase("")]
        [TestCase("{")]
        [TestCase("{\"a\"}")]
        [TestCase("[1,]")]
        [TestCase("[1 2]")]
        [TestCase("tru")]
        [TestCase("\"\\u00g0\"")]
        [TestCase("\"")]
        [TestCase("1 2")]
        [TestCase("-")]
        public void other_text_is_malformed(string text)
        {
            Assert.Throws<IOException>(() => Json.Parse(text));
        }

        [Test]
        public void deep_value_is_malformed()
        {
            Assert.Throws<IOException>(() => Json.Parse(new string('[', 1000)));
        }

        [Test]
        public void text_is_quoted()
        {
            Assert.AreEqual("\"a\\\"\\\\\\u000a\"", Quoted("a\"\\\n"));
            Assert.AreEqual("\"??\"", Quoted("\0\udc00"));
            Assert.AreEqual("\"\ud83d\ude00 ?\"", Quoted("\ud83d\ude00 \ud83d"));
        }

        private static string Quoted(string text)
        {
            var json = new StringBuilder();
            Json.Quote(json, text);
            return json.ToString();
        }
    }
}
